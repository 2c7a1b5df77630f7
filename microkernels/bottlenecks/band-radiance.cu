// Radiance of black bodies as a filter sees it: response[samples] at frequencies 1, 2, … times `step`,
// temperatures[bodies] → radiance[bodies] = Σ response · x³ ÷ (eˣ − 1), x = frequency ÷ temperature. Temperatures are
// differences from 2; bodies are even, samples a multiple of 1024.
#include "case.cuh"

static __device__ __forceinline__ float emitted(float response, float x) {
    return __fdividef(response * x * x * x, __expf(x) - 1.0f);
}

static __device__ __forceinline__ float over_warp(float sum) {
#pragma unroll
    for (u32 apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
    return sum;
}

// Adds up for two bodies every so manyth group of four samples, from `own` on. Lane 0 of each warp has the sums.
template <u32 threads>
static __device__ __forceinline__ float2 sums_of_two(const float *__restrict__ response, float2 difference, u32 own,
                                                     u32 samples, float step) {
    const float scales[2] = {__fdividef(step, 2.0f + difference.x), __fdividef(step, 2.0f + difference.y)};
    float sums[2] = {};
    float frequency = (float)(own * 4 + 1);
    for (u32 i = own; i < samples / 4; i += threads) {
        const float4 now = ((const float4 *)response)[i];
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            sums[k] += emitted(now.x, frequency * scales[k]);
            sums[k] += emitted(now.y, (frequency + 1.0f) * scales[k]);
            sums[k] += emitted(now.z, (frequency + 2.0f) * scales[k]);
            sums[k] += emitted(now.w, (frequency + 3.0f) * scales[k]);
        }
        frequency += (float)(threads * 4);
    }
    return make_float2(over_warp(sums[0]), over_warp(sums[1]));
}

// A block has 64 bodies, a warp two of them.
extern "C" __global__ void __launch_bounds__(1024, 1)
slow(const float *__restrict__ response, const float *__restrict__ temperatures, float *__restrict__ radiance,
     u32 bodies, u32 samples, float step) {
    const u32 pair = blockIdx.x * 32 + threadIdx.x / 32;
    if (pair * 2 >= bodies) return;
    const float2 difference = ((const float2 *)temperatures)[pair];
    const float2 sums = sums_of_two<32>(response, difference, threadIdx.x % 32, samples, step);
    if (threadIdx.x % 32 == 0) ((float2 *)radiance)[pair] = sums;
}

// A block has eight bodies, eight warps two of them.
extern "C" __global__ void __launch_bounds__(1024, 1)
fixed(const float *__restrict__ response, const float *__restrict__ temperatures, float *__restrict__ radiance,
      u32 bodies, u32 samples, float step) {
    __shared__ float2 parts[32];
    const u32 pair = blockIdx.x * 4 + threadIdx.x / 256;
    float2 sums = make_float2(0.0f, 0.0f);
    if (pair * 2 < bodies) {
        const float2 difference = ((const float2 *)temperatures)[pair];
        sums = sums_of_two<256>(response, difference, threadIdx.x % 256, samples, step);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sums;
    __syncthreads();
    if (threadIdx.x % 256 > 0 || pair * 2 >= bodies) return;
    float2 all = parts[threadIdx.x / 32];
#pragma unroll
    for (u32 k = 1; k < 8; ++k) {
        all.x += parts[threadIdx.x / 32 + k].x;
        all.y += parts[threadIdx.x / 32 + k].y;
    }
    ((float2 *)radiance)[pair] = all;
}
