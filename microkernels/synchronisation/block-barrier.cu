// Cycles of __syncthreads, by the threads of the block.
// Mechanism: all warps of one block meet at a barrier, UNROLL times an iteration; nothing else happens.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: barriers that the compiler joins, other blocks on the SM, work between the barriers.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
block_barrier(Clocks *clocks, u32 iterations) {
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) __syncthreads();
    }
    end(clocks, start);
}
