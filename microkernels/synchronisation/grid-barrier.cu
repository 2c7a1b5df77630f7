// Time of a barrier of all blocks of a grid.
// Mechanism: the threads of each block meet; one of them adds to a counter in global memory, with release, and reads
// it, with acquire, until its top bit has changed; the threads of the block meet again. The first block adds 2^31 less
// the number of the others, so that the last arrival changes the bit and the other bits are as they were: it needs no
// reset, and is what cooperative groups do. The launch is cooperative: all blocks run at once.
// Formula: time / iterations, by the slope over iterations.
// What would make it lie: a grid of which not all blocks run at once never ends; a few blocks only, a barrier without
// fences.
#include "probe.cuh"

__device__ __forceinline__ void meet(u32 *arrived) {
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 step = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
        u32 before, now;
        asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;"
                     : "=r"(before) : "l"(__cvta_generic_to_global(arrived)), "r"(step) : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(now) : "l"(__cvta_generic_to_global(arrived)) : "memory");
        } while (((before ^ now) & 0x80000000u) == 0);
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(1024)
grid_barrier(Clocks *clocks, u32 iterations, u32 *arrived) {
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) meet(arrived);
    end(clocks, start);
}
