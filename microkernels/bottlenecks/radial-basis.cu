// Sum of 64 Gaussian bells at each distance: values[n] = Σ weights[k] · 2^−(spread · (reach · |distances[n]| −
// k))².
#include "exp2.cuh"

constexpr u32 centres = 64;

extern "C" __global__ void __launch_bounds__(256)
slow(const float2 *__restrict__ distances, const float4 *__restrict__ weights, float2 *__restrict__ values, u32 pairs,
     float reach, float spread)
{
    __shared__ float4 weight[centres / 4];
    if (threadIdx.x < centres / 4)
        weight[threadIdx.x] = weights[threadIdx.x];
    __syncthreads();
    const u32 pair = blockIdx.x * 256 + threadIdx.x;
    if (pair >= pairs)
        return;
    const float2 distance = distances[pair];
    const float at[2] = {spread * (reach * fabsf(distance.x)), spread * (reach * fabsf(distance.y))};
    float sum[2] = {0, 0};
#pragma unroll
    for (u32 group = 0; group < centres / 4; ++group) {
        const float4 four = weight[group];
        const float part[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (u32 index = 0; index < 4; ++index)
#pragma unroll
            for (u32 which = 0; which < 2; ++which) {
                const float apart = fmaf(-spread, (float)(group * 4 + index), at[which]);
                float bell;
                EXP2(bell, -(apart * apart));
                sum[which] = fmaf(part[index], bell, sum[which]);
            }
    }
    values[pair] = make_float2(sum[0], sum[1]);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float2 *__restrict__ distances, const float4 *__restrict__ weights, float2 *__restrict__ values, u32 pairs,
      float reach, float spread)
{
    constexpr u32 run = 16;
    __shared__ float4 weight[centres / 4];
    if (threadIdx.x < centres / 4)
        weight[threadIdx.x] = weights[threadIdx.x];
    __syncthreads();
    const u32 pair = blockIdx.x * 256 + threadIdx.x;
    if (pair >= pairs)
        return;
    const float2 distance = distances[pair];
    const float at[2] = {spread * (reach * fabsf(distance.x)), spread * (reach * fabsf(distance.y))};
    float bend, sum[2] = {0, 0};
    EXP2(bend, -2.0f * spread * spread);
    // From one centre to the next a bell changes by a factor, and that factor by another that is always the same.
#pragma unroll
    for (u32 first = 0; first < centres; first += run) {
        float bell[2], factor[2];
#pragma unroll
        for (u32 which = 0; which < 2; ++which) {
            const float apart = fmaf(-spread, (float)first, at[which]);
            EXP2(bell[which], -(apart * apart));
            EXP2(factor[which], spread * fmaf(2.0f, apart, -spread));
        }
#pragma unroll
        for (u32 group = first / 4; group < (first + run) / 4; ++group) {
            const float4 four = weight[group];
            const float part[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (u32 index = 0; index < 4; ++index)
#pragma unroll
                for (u32 which = 0; which < 2; ++which) {
                    sum[which] = fmaf(part[index], bell[which], sum[which]);
                    bell[which] *= factor[which];
                    factor[which] *= bend;
                }
        }
    }
    values[pair] = make_float2(sum[0], sum[1]);
}
