// Takes 64 steps of linear systems of 8 states that share a matrix: next[j] = sum over i of now[i] * matrix[i][j], with
// matrix[8][8], in[8][count] and out[8][count]; a thread has four neighbouring systems, count is a multiple of 1024.
#include "case.cuh"

#define STATES 8
#define STEPS 64

// sum += v * factor
#define ADD(sum, v, factor)                                                                                            \
    sum = make_float4(fmaf(v.x, factor, sum.x), fmaf(v.y, factor, sum.y),                                              \
                      fmaf(v.z, factor, sum.z), fmaf(v.w, factor, sum.w))

extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ matrix, const float4 *__restrict__ in, float4 *__restrict__ out, u32 count) {
    __shared__ float4 rows[STATES][STATES / 4];
    const u32 place = blockIdx.x * 256 + threadIdx.x, width = count / 4;
    if (threadIdx.x < STATES * STATES) ((float *)rows)[threadIdx.x] = matrix[threadIdx.x];
    float4 now[STATES];
#pragma unroll
    for (u32 i = 0; i < STATES; i++)
        now[i] = in[i * width + place];
    __syncthreads();
#pragma unroll 1
    for (u32 step = 0; step < STEPS; step++) {
        float4 next[STATES];
#pragma unroll
        for (u32 j = 0; j < STATES; j++)
            next[j] = make_float4(0, 0, 0, 0);
#pragma unroll
        for (u32 i = 0; i < STATES; i++)
#pragma unroll
            for (u32 j = 0; j < STATES; j += 4) {
                const float4 factors = rows[i][j / 4];
                ADD(next[j], now[i], factors.x);
                ADD(next[j + 1], now[i], factors.y);
                ADD(next[j + 2], now[i], factors.z);
                ADD(next[j + 3], now[i], factors.w);
            }
#pragma unroll
        for (u32 j = 0; j < STATES; j++)
            now[j] = next[j];
    }
#pragma unroll
    for (u32 i = 0; i < STATES; i++)
        out[i * width + place] = now[i];
}
