// Bulk copies by the copy engine (TMA) and the barriers in shared memory on which they complete.
#pragma once
#include "copy.cuh"

// A barrier that never comes ends in a trap: a kernel that hangs would take the GPU along.
constexpr u32 PATIENCE = 1 << 16;

__device__ __forceinline__ void init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(arrivals) : "memory");
}

// What was initialised is seen by the copy engine and by the other blocks of the cluster.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

// The same for all lanes, and in a register: else the compiler computes shared addresses anew, from the block's number.
__device__ __forceinline__ u32 kept(u32 value) { return __shfl_sync(0xffffffffu, value, 0); }

// Tell whether this lane is the one that speaks for its warp.
__device__ __forceinline__ bool elected() {
    u32 chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
    return chosen;
}

// This thread arrives, and the phase lasts until so many bytes have come.
__device__ __forceinline__ void expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
#pragma unroll 1
    for (u32 tries = 0; tries < PATIENCE; ++tries) {
        u32 done;
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
        if (done) return;
    }
    asm volatile("trap;");
}

// From global into this block's shared memory; `barrier` learns how many bytes came. The first PTX of sm_90 has only
// the form for any block of the cluster; on sm_120 that form asks each time which block it is.
#if __CUDA_ARCH__ >= 1000
#define OWN_SHARED "shared::cta"
#else
#define OWN_SHARED "shared::cluster"
#endif
__device__ __forceinline__ void bulk_load(u32 to, const void *from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk." OWN_SHARED ".global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 : : "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// One lane starts the copy of the k-th `size` bytes into the k-th slot.
__device__ __forceinline__ void refill(u32 slot, u32 barrier, const char *source, u32 size, u32 k) {
    if (elected()) {
        expect(barrier + 8 * k, size);
        bulk_load(slot + k * size, source + k * size, size, barrier + 8 * k);
    }
}

// One warp keeps DEPTH copies of `size` bytes in flight: it waits for the oldest and puts the next in its place.
__device__ __forceinline__ void time_ring(Clocks *clocks, u32 iterations, u32 *sink, const char *source, u64 bytes,
                                          u32 size) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 barriers[DEPTH];
    const u32 slot = kept(shared_address(ring)), barrier = kept(shared_address(barriers));
    Walk walk(bytes, DEPTH * size, blockIdx.x, gridDim.x);
    if (threadIdx.x == 0) {
        for (u32 k = 0; k < DEPTH; ++k) init(barrier + 8 * k, 1);
        publish_barriers();
    }
    const Stamp start = begin();
#pragma unroll
    for (u32 k = 0; k < DEPTH; ++k) refill(slot, barrier, source + walk.at, size, k);
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        walk.next();
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) {
            wait(barrier + 8 * k, i % 2);
            refill(slot, barrier, source + walk.at, size, k);
        }
    }
    for (u32 k = 0; k < DEPTH; ++k) wait(barrier + 8 * k, iterations % 2);
    end(clocks, start);
    compare(sink, ring, source + walk.at, DEPTH * size);
}
