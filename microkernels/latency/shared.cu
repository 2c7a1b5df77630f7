// Cycles from a load from shared memory to its value.
// Mechanism: one warp walks a cycle of 256 addresses in shared memory; each load's value is the next load's address,
// and all lanes load the same word.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: address arithmetic in the chain, loads that the compiler forwards from the stores before,
// other warps on the SM.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(32)
shared(Clocks *clocks, u32 iterations, u32 *sink) {
    __shared__ u32 next[256];
    const u32 first = (u32)__cvta_generic_to_shared(next);
    for (u32 i = threadIdx.x; i < 256; i += 32) next[i] = first + (i + 157) % 256 * 4;
    u32 address = first;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step)
            asm volatile("ld.shared.u32 %0, [%0];" : "+r"(address) : : "memory");
    }
    end(clocks, start);
    keep(sink, address);
}
