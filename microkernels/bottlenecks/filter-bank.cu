// Four filters of 32 taps over a long signal: in[values + 32] to out[4][values], out[f][i] = the sum of taps[f][k] * in[i + k]; values come by 1024.
#include "case.cuh"

constexpr u32 FILTERS = 4;
constexpr u32 TAPS = 32;
constexpr u32 TILE = 1024;

// Moves a tile and what the filters reach beyond it to shared memory, and the taps.
__device__ __forceinline__ void load(float4 *tile, float4 *weights, const float4 *in, const float4 *taps) {
    const float4 *const from = in + (u64)blockIdx.x * (TILE / 4);
    tile[threadIdx.x] = from[threadIdx.x];
    if (threadIdx.x < TAPS / 4) tile[TILE / 4 + threadIdx.x] = from[TILE / 4 + threadIdx.x];
    if (threadIdx.x < FILTERS * TAPS / 4) weights[threadIdx.x] = taps[threadIdx.x];
    __syncthreads();
}

// A block has 1024 values; a thread takes every 256th of them, filter by filter.
extern "C" __global__ void __launch_bounds__(256)
slow(const float4 *__restrict__ in, const float4 *__restrict__ taps, float *__restrict__ out, u32 values) {
    __shared__ float4 tile[(TILE + TAPS) / 4];
    __shared__ float4 weights[FILTERS * TAPS / 4];
    load(tile, weights, in, taps);
    const float *const window = (const float *)tile + threadIdx.x;
    float *to = out + ((u64)blockIdx.x * TILE + threadIdx.x);
#pragma unroll 1
    for (u32 filter = 0; filter < FILTERS; ++filter) {
        const float *const weight = (const float *)weights + filter * TAPS;
#pragma unroll 1
        for (u32 i = 0; i < TILE; i += 256) {
            float sum = 0.0f;
#pragma unroll
            for (u32 k = 0; k < TAPS; ++k) {
                sum = fmaf(weight[k], window[i + k], sum);
            }
            to[i] = sum;
        }
        to += values;
    }
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ in, const float4 *__restrict__ taps, float *__restrict__ out, u32 values) {
    __shared__ float4 tile[(TILE + TAPS) / 4];
    __shared__ float4 weights[FILTERS * TAPS / 4];
    load(tile, weights, in, taps);
    // A thread has four neighbouring values of all filters: what it reads serves up to sixteen sums.
    float sums[FILTERS][4] = {};
    float4 left = tile[threadIdx.x];
#pragma unroll
    for (u32 k = 0; k < TAPS / 4; ++k) {
        const float4 right = tile[threadIdx.x + k + 1];
        const float window[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
        for (u32 filter = 0; filter < FILTERS; ++filter) {
            const float4 weight = weights[filter * (TAPS / 4) + k];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                sums[filter][j] = fmaf(weight.x, window[j], sums[filter][j]);
                sums[filter][j] = fmaf(weight.y, window[j + 1], sums[filter][j]);
                sums[filter][j] = fmaf(weight.z, window[j + 2], sums[filter][j]);
                sums[filter][j] = fmaf(weight.w, window[j + 3], sums[filter][j]);
            }
        }
        left = right;
    }
    float4 *to = (float4 *)out + ((u64)blockIdx.x * (TILE / 4) + threadIdx.x);
#pragma unroll
    for (u32 filter = 0; filter < FILTERS; ++filter) {
        *to = make_float4(sums[filter][0], sums[filter][1], sums[filter][2], sums[filter][3]);
        to += values / 4;
    }
}
