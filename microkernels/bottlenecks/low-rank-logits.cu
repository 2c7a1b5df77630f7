// Multiplies hidden states of rank 8 by a wide matrix: out[row][column] = sum over r of hidden[row][r] * up[r][column],
// with hidden[rows][8], up[8][columns] and out[rows][columns]; columns is a multiple of 4.
#include "case.cuh"

#define RANK 8

// sum += factor * v
#define ADD(sum, factor, v)                                                                                            \
    sum = make_float4(fmaf(factor, v.x, sum.x), fmaf(factor, v.y, sum.y),                                              \
                      fmaf(factor, v.z, sum.z), fmaf(factor, v.w, sum.w))

extern "C" __global__ void __launch_bounds__(256, 6)
slow(const float4 *__restrict__ hidden, const float4 *__restrict__ up, float4 *__restrict__ out, u32 rows,
     u32 columns) {
    const u32 column = blockIdx.x * 256 + threadIdx.x, width = columns / 4, row = blockIdx.y;
    if (column >= width) return;
    const float4 a = hidden[2 * row], b = hidden[2 * row + 1];
    const float factors[RANK] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (u32 r = 0; r < RANK; r++) {
        const float4 v = up[r * width + column];
        ADD(sum, factors[r], v);
    }
    out[(u64)row * width + column] = sum;
}

#define ROWS 32

extern "C" __global__ void __launch_bounds__(256, 4)
fixed(const float4 *__restrict__ hidden, const float4 *__restrict__ up, float4 *__restrict__ out, u32 rows,
      u32 columns) {
    const u32 column = blockIdx.x * 256 + threadIdx.x, width = columns / 4;
    const u32 first = blockIdx.y * ROWS, end = min(first + ROWS, rows);
    if (column >= width) return;
    float4 kept[RANK];
#pragma unroll
    for (u32 r = 0; r < RANK; r++)
        kept[r] = up[r * width + column];
    for (u32 row = first; row < end; row++) {
        const float4 a = hidden[2 * row], b = hidden[2 * row + 1];
        const float factors[RANK] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (u32 r = 0; r < RANK; r++)
            ADD(sum, factors[r], kept[r]);
        out[(u64)row * width + column] = sum;
    }
}
