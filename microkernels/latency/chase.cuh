// A walk along addresses: every load gives the address of the next, so that nothing but the loads' latency adds up.
#pragma once
#include "probe.cuh"

// As C's loads: L1 may answer.
struct ThroughL1 {
    static __device__ __forceinline__ u64 load(u64 address) {
        u64 next;
        asm volatile("ld.global.u64 %0, [%1];" : "=l"(next) : "l"(address) : "memory");
        return next;
    }
};

// L2 answers: a load that must see what other SMs have written.
struct PastL1 {
    static __device__ __forceinline__ u64 load(u64 address) {
        u64 next;
        asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(address) : "memory");
        return next;
    }
};

__device__ __forceinline__ u64 global_address(const void *pointer) {
    return (u64)__cvta_generic_to_global(pointer);
}

// The warp loads every node once, in the order of the addresses, 32 * 8 at a time: quick, where caches are large.
template <class Path>
__device__ __forceinline__ void touch(u64 first, u64 bytes, u32 stride, u32 *sink) {
    const u32 nodes = bytes / stride;
    u64 sum = 0;
#pragma unroll 1
    for (u32 node = threadIdx.x; node < nodes; node += 32 * 8) {
        u64 value[8];
#pragma unroll
        for (u32 k = 0; k < 8; ++k) value[k] = Path::load(first + (u64)min(node + 32 * k, nodes - 1) * stride);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) sum ^= value[k];
    }
    keep(sink, (u32)sum ^ (u32)(sum >> 32));
}

// Walk the whole cycle once, so that the caches are as every further round will leave them.
template <class Path>
__device__ __forceinline__ void go_round(u64 address, u64 bytes, u32 stride, u32 *sink) {
#pragma unroll 1
    for (u32 left = bytes / stride; left > 0; --left) address = Path::load(address);
    keep(sink, (u32)address);
}

// The timed walk: all lanes of one warp along the same addresses, one request a load. A single thread of a warp would
// make a loop that can diverge, with votes in it on the older architectures. `walk` gets where each thread began and
// where it came to, for the host to check.
template <class Path, int STEPS>
__device__ __forceinline__ u64 chase(Clocks *clocks, u32 iterations, u64 *walk, u64 address) {
    u64 *const ends = walk + 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    ends[0] = address;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) address = Path::load(address);
    }
    end(clocks, start);
    ends[1] = address;
    return address;
}

// Where the last launch stopped, in bytes from the start of the buffer. A launch that began at the start again would
// find in L2 what the last one has loaded. It outlives launches; one that is no node of this buffer is not used.
__device__ u64 place;

__device__ __forceinline__ u64 last_place(u64 bytes, u32 stride) {
    const u64 offset = place;
    return offset + stride <= bytes && offset % stride == 0 ? offset : 0;
}

// One block only: walks on from where the last launch stopped.
template <class Path, int STEPS>
__device__ __forceinline__ void chase_on(
    Clocks *clocks, u32 iterations, u64 *walk, const void *chain, u64 bytes, u32 stride
) {
    const u64 first = global_address(chain);
    place = chase<Path, STEPS>(clocks, iterations, walk, first + last_place(bytes, stride)) - first;
}
