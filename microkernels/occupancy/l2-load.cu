// Bytes per clock that one SM loads from L2 against the warps that it holds and the independent loads in each.
// Mechanism: every block walks over the same buffer, which L2 holds, each from a place of its own. A warp has DEPTH
// loads of a line of 128 bytes in flight and waits for all of them, so that the rate grows with warps * DEPTH until L2
// or the SM's port to it is busy. Loads of the kind .cg pass by L1, and the carve-out leaves little of it.
// Formula: 4 bytes * DEPTH * threads * iterations / cycles.
// What would make it lie: hits in L1, lines that are not in L2 (the first walk), loads that wait for one another, fewer
// blocks on an SM than asked for. The next address is computed after a wait: four dependent instructions per latency.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
l2_load(Clocks *clocks, u32 iterations, u32 *sink, const u32 *buffer, u64 bytes) {
    const u32 step = 128 * DEPTH;
    const u32 steps = bytes / 4 / step;
    const u32 *const mine = buffer + threadIdx.x;
    u32 at = (u64)blockIdx.x * steps / gridDim.x * step;
    u32 sum = 0;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        const u32 *const element = mine + at;
        u32 value[DEPTH];
#pragma unroll
        for (int k = 0; k < DEPTH; ++k)
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value[k]) : "l"(element + k * 128));
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) sum ^= value[k];
        at += step;
        if (at >= steps * step) at -= steps * step;
    }
    end(clocks, start);
    keep(sink, sum);
}
