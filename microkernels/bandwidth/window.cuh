// A window of 16 KiB that every warp walks through again and again, each lane beside its neighbour.
#pragma once
#include "probe.cuh"

constexpr u32 WINDOW = 16384;

struct Window {
    u32 at;

    // Warps begin at different places. `step` bytes per iteration divide the window.
    __device__ __forceinline__ Window(u32 width, u32 step) {
        at = threadIdx.x / 32 * step % WINDOW + threadIdx.x % 32 * width;
    }
    __device__ __forceinline__ void next(u32 step) { at = (at + step) % WINDOW; }
};
