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

// Every block through all of it but less than a chunk, for what must come from L2. They share all lines, and begin at
// different ones: blocks that began at the same would go on in step, and what is on the way for one could answer others.
struct BlockWalk {
    u32 at, first, last, chunk;

    __device__ __forceinline__ BlockWalk(u64 bytes, u32 chunk, u32 lane) : chunk(chunk) {
        const u32 start = (u32)((u64)blockIdx.x * (bytes - chunk) / gridDim.x) / 1024 * 1024;
        at = start + lane;
        first = start % chunk + lane;
        last = (u32)bytes - 2 * chunk + lane;
    }
    __device__ __forceinline__ void next(u32 skip = 0) { at = at > last ? first : at + chunk + skip; }
};
