// Cycles of a barrier of all blocks of a cluster.
// Mechanism: all threads of CLUSTER blocks arrive and wait, UNROLL times an iteration. They arrive with release, behind
// a fence, as cluster.sync() does, or relaxed; they wait with acquire, which invalidates L1.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: blocks of one SM, barriers of another memory order than is named.
#include "probe.cuh"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(1024)
cluster_barrier(Clocks *clocks, u32 iterations) {
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) {
            asm volatile("barrier.cluster.arrive." TEXT(ORDER) ".aligned;" : : : "memory");
            asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
        }
    }
    end(clocks, start);
}
