// Cycles from a load out of the shared memory of another block of the cluster to the next load that needs it.
// Mechanism: one warp per block. Each lane's word in the next block of the cluster (a ring) holds that word's own
// address, so that what a load returns is where the next one goes. The loads are generic, as those of
// `ld.shared::cluster` become.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: a word of the own block (the launch must really make clusters), an address that is computed
// between the loads. At the end each block asks the one that it read for its number.
#include "cluster.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
dsm_latency(Clocks *clocks, u32 iterations, u32 *sink) {
    __shared__ u64 words[32];
    u64 at = generic(in_block(shared_address(words + threadIdx.x), neighbour(1)));
    asm volatile("st.u64 [%0], %0;" : : "l"(at) : "memory");
    cluster_barrier();
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) asm volatile("ld.u64 %0, [%0];" : "+l"(at));
    }
    end(clocks, start);
    keep(sink, (u32)at);
    cluster_barrier();
    check_neighbour(sink, (u32 *)words);
}
