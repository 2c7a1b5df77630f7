// Levels of 33 tones in overlapping frames of a signal, by Goertzel's recurrence: signal[frames * 128 + 896],
// twice[33] (2 · cos of each tone's step) → levels[frames][33]; a frame has 1024 samples and begins 128 after the last.
#include "case.cuh"

constexpr u32 tones = 33, length = 1024, hop = 128;

static __device__ __forceinline__ float level_of(const float *__restrict__ signal, u32 frame, float twice) {
    const float4 *const from = (const float4 *)(signal + frame * hop);
    float now = 0, before = 0;
#pragma unroll 4
    for (u32 i = 0; i < length / 4; ++i) {
        const float4 part = from[i];
        before = fmaf(twice, now, part.x - before);
        now = fmaf(twice, before, part.y - now);
        before = fmaf(twice, now, part.z - before);
        now = fmaf(twice, before, part.w - now);
    }
    return now * now + before * before - twice * now * before;
}

// A block has a frame, a thread one of its tones.
extern "C" __global__ void __launch_bounds__(tones)
slow(const float *__restrict__ signal, const float *__restrict__ twice, float *__restrict__ levels, u32 frames) {
    levels[blockIdx.x * tones + threadIdx.x] = level_of(signal, blockIdx.x, twice[threadIdx.x]);
}

// A thread has a tone of a frame; the tones of all frames follow each other.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ signal, const float *__restrict__ twice, float *__restrict__ levels, u32 frames) {
    const u32 at = blockIdx.x * 256 + threadIdx.x;
    if (at < frames * tones) levels[at] = level_of(signal, at / tones, twice[at % tones]);
}
