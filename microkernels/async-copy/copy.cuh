// What the asynchronous copies share: where the next bytes of a buffer in L2 are, and the check of what was copied.
#pragma once
#include "probe.cuh"

// Every walker (a block, or a cluster) goes through the whole buffer in steps of `chunk` bytes. They begin at different
// chunks.
struct Walk {
    u32 at, end, chunk;

    __device__ __forceinline__ Walk(u64 bytes, u32 chunk, u32 walker, u32 walkers) : chunk(chunk) {
        const u32 chunks = bytes / chunk;
        end = (chunks - 1) * chunk;
        at = (u32)((u64)walker * chunks / walkers) * chunk;
    }
    __device__ __forceinline__ void next() { at = at >= end ? 0 : at + chunk; }
};

__device__ __forceinline__ u32 shared_address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Count this thread's words of `copy` that are not those of `source`, and tell the host if there are any.
__device__ __forceinline__ void compare(u32 *sink, const void *copy, const void *source, u32 bytes) {
    const u32 *const came = (const u32 *)copy, *const sent = (const u32 *)source;
    u32 wrong = 0;
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) wrong += came[i] != sent[i];
    if (wrong) sink[blockIdx.x * blockDim.x + threadIdx.x] += wrong;
}
