// Bytes per second that all SMs load from DRAM against the warps on each and the independent loads in each warp.
// Mechanism: the grid walks over a buffer far larger than L2. A warp has DEPTH loads of a line of 128 bytes in flight
// and waits for all of them, so that the rate grows with warps * DEPTH until DRAM is busy.
// Formula: 4 bytes * DEPTH * threads * iterations / time.
// What would make it lie: a buffer that L2 holds in part, loads that wait for one another, fewer blocks on an SM than
// asked for.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
dram_load(Clocks *clocks, u32 iterations, u32 *sink, const u32 *buffer, u64 bytes) {
    const u32 step = gridDim.x * 128 * DEPTH;
    const u32 whole = bytes / 4 / step * step;
    const u32 *const mine = buffer + threadIdx.x;
    u32 at = blockIdx.x * 128 * DEPTH;
    u32 sum = 0;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        const u32 *const element = mine + at;
        u32 value[DEPTH];
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) value[k] = element[k * 128];
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) sum ^= value[k];
        at += step;
        if (at >= whole) at -= whole;
    }
    end(clocks, start);
    keep(sink, sum);
}
