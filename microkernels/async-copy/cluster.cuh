// Blocks of one cluster: their numbers, their barrier, and each other's shared memory.
#pragma once
#include "copy.cuh"

__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The number in the cluster of the block `distance` further on; the blocks form a ring.
__device__ __forceinline__ u32 neighbour(u32 distance) { return (cluster_rank() + distance) % CLUSTER; }

// What lies at this shared address in another block of the cluster.
__device__ __forceinline__ u32 in_block(u32 address, u32 rank) {
    u32 remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}

// The same as a generic address. `ld.shared::cluster` becomes a generic load (LD) in any case; with a 32-bit address
// the compiler puts the upper half of the address together before each one.
__device__ __forceinline__ u64 generic(u32 address) {
    u64 pointer;
    asm volatile("cvta.shared::cluster.u64 %0, %1;" : "=l"(pointer) : "l"((u64)address));
    return pointer;
}

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
}

// Relaxed: nothing that was written is handed over with it, and a release would wait for all memory of the GPU.
__device__ __forceinline__ void arrive_remotely(u32 barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" : : "r"(barrier) : "memory");
}

// Tell the host if the block that is read is not the next one of the cluster. `name` is a word of shared memory.
__device__ __forceinline__ void check_neighbour(u32 *sink, u32 *name) {
    if (threadIdx.x == 0) *name = cluster_rank();
    cluster_barrier();
    const u64 there = generic(in_block(shared_address(name), neighbour(1)));
    u32 read;
    asm volatile("ld.u32 %0, [%1];" : "=r"(read) : "l"(there) : "memory");
    if (read != neighbour(1)) sink[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    cluster_barrier();
}
