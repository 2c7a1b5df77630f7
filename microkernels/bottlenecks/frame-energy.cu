// Energy of frames of 32 samples: in[frames][32] → out[frames].
#include "case.cuh"

constexpr u32 length = 32;

// A thread has a frame.
extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ in, float *__restrict__ out, u32 frames) {
    const u32 frame = blockIdx.x * 256 + threadIdx.x;
    if (frame >= frames) return;
    const float *const from = in + (u64)frame * length;
    float sum = 0;
#pragma unroll 8
    for (u32 k = 0; k < length; ++k) {
        const float sample = from[k];
        sum = fmaf(sample, sample, sum);
    }
    out[frame] = sum;
}

// A warp has 32 frames, eight lanes one of four that are read at a time.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ in, float *__restrict__ out, u32 frames) {
    const u32 lane = threadIdx.x % 32, first = blockIdx.x * 256 + threadIdx.x - lane;
    const float4 *const from = (const float4 *)in;
    float sums[8];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
        const u32 frame = min(first + k * 4 + lane / 8, frames - 1);
        const float4 part = from[(u64)frame * (length / 4) + lane % 8];
        sums[k] = fmaf(part.x, part.x, fmaf(part.y, part.y, fmaf(part.z, part.z, part.w * part.w)));
    }
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
#pragma unroll
        for (u32 apart = 4; apart > 0; apart /= 2) sums[k] += __shfl_xor_sync(0xffffffff, sums[k], apart);
        const u32 frame = first + k * 4 + lane / 8;
        if (lane % 8 == 0 && frame < frames) out[frame] = sums[k];
    }
}
