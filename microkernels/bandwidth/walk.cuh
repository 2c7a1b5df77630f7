// Walks through a buffer: where a thread's elements are, from one iteration to the next.
#pragma once
#include "probe.cuh"

// The whole grid side by side, for what must come from DRAM: a block has `chunk` bytes of each step. Counts in bytes.
struct GridWalk {
    u64 at, first, last, step;

    __device__ __forceinline__ GridWalk(u64 bytes, u32 chunk, u32 lane) {
        step = (u64)gridDim.x * chunk;
        first = (u64)blockIdx.x * chunk + lane;
        last = first + bytes - 2 * step;
        at = first;
    }
    __device__ __forceinline__ void next(u64 skip = 0) { at = at > last ? first : at + step + skip; }
};

// Every block through all of it, for what must come from L2: they begin at different chunks, and share all lines.
struct BlockWalk {
    u32 at, lane, end, chunk;

    __device__ __forceinline__ BlockWalk(u64 bytes, u32 chunk, u32 lane) : lane(lane), chunk(chunk) {
        const u32 chunks = bytes / chunk;
        end = (chunks - 1) * chunk + lane;
        at = (u32)((u64)blockIdx.x * chunks / gridDim.x) * chunk + lane;
    }
    __device__ __forceinline__ void next(u32 skip = 0) { at = at >= end ? lane : at + chunk + skip; }
};
