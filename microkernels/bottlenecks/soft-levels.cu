// Rounds samples softly to 256 levels: out[i] = the mean of levels[256], each weighed by exp(-sharpness · (in[i] -
// level)²); in[count], out[count], count is a multiple of 64. A block has 64 samples.
#include "case.cuh"

constexpr u32 levels_held = 256, samples = 64;

// A thread has a level; the block goes through its samples.
extern "C" __global__ void __launch_bounds__(levels_held)
slow(const float *__restrict__ in, const float *__restrict__ levels, float *__restrict__ out, float sharpness) {
    __shared__ float weight[levels_held], weighed[levels_held];
    const u32 t = threadIdx.x, first = blockIdx.x * samples;
    const float level = levels[t];
#pragma unroll 1
    for (u32 i = first; i < first + samples; ++i) {
        const float apart = in[i] - level;
        weight[t] = __expf(-sharpness * apart * apart);
        weighed[t] = weight[t] * level;
        __syncthreads();
#pragma unroll 1
        for (u32 half = levels_held / 2; half > 0; half /= 2) {
            if (t < half) {
                weight[t] += weight[t + half];
                weighed[t] += weighed[t + half];
            }
            __syncthreads();  // before the next half is added
        }
        if (t == 0) out[i] = __fdividef(weighed[0], weight[0]);
        __syncthreads();
    }
}

// A warp has eight samples, and a lane eight levels.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ in, const float *__restrict__ levels, float *__restrict__ out, float sharpness) {
    const u32 lane = threadIdx.x % 32, first = blockIdx.x * samples + threadIdx.x / 32 * (samples / 8);
    float level[8];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) level[k] = levels[lane + 32 * k];
#pragma unroll 1
    for (u32 which = 0; which < samples / 8; ++which) {
        const float sample = in[first + which];
        float weight = 0, weighed = 0;
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            const float apart = sample - level[k], part = __expf(-sharpness * apart * apart);
            weight += part;
            weighed = fmaf(part, level[k], weighed);
        }
#pragma unroll
        for (u32 away = 16; away > 0; away /= 2) {
            weight += __shfl_down_sync(0xffffffff, weight, away);
            weighed += __shfl_down_sync(0xffffffff, weighed, away);
        }
        if (lane == 0) out[first + which] = __fdividef(weighed, weight);
    }
}
