// Bytes per clock that one SM loads from shared memory against the warps that it holds and the independent loads in
// each.
// Mechanism: CHAINS chains of loads per thread, each of which gives the address of the next: every word holds its own
// address. The lanes of a warp read 32 words in 32 banks. A warp has CHAINS loads in flight per latency, so that the
// rate grows with warps * CHAINS until the port is busy.
// Formula: 4 bytes * LINKS * threads * iterations / cycles.
// What would make it lie: bank conflicts, loads of one address that ptxas merges, fewer blocks on an SM than asked for,
// an uneven spread of blocks over SMs.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(128)
shared_load(Clocks *clocks, u32 iterations, u32 *sink) {
    __shared__ u32 words[128];
    const u32 base = (u32)__cvta_generic_to_shared(words);
    words[threadIdx.x] = base + threadIdx.x * 4;
    u32 address[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) address[chain] = base + (threadIdx.x ^ chain) * 4;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int link = 0; link < LINKS; ++link)
            asm volatile("ld.shared.u32 %0, [%0];" : "+r"(address[link % CHAINS]));
    }
    end(clocks, start);
    u32 sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) sum += address[chain];
    keep(sink, sum);
}
