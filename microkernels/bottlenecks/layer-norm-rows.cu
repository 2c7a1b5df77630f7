// Normalises each row to mean 0 and variance 1, then scales and shifts it: x[rows][1024], scale[1024], shift[1024],
// y[rows][1024]; a warp has one row, rows is a multiple of 8.
#include "case.cuh"

#define COLUMNS 1024
#define VECTORS (COLUMNS / 128)

static __device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ x, const float4 *__restrict__ scale, const float4 *__restrict__ shift,
      float4 *__restrict__ y) {
    const u32 lane = threadIdx.x % 32;
    const u64 row = (u64)(blockIdx.x * 8 + threadIdx.x / 32) * (COLUMNS / 4) + lane;
    float4 v[VECTORS];
#pragma unroll
    for (u32 k = 0; k < VECTORS; k++)
        v[k] = x[row + k * 32];
    float sum = 0;
#pragma unroll
    for (u32 k = 0; k < VECTORS; k++)
        sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    const float mean = warp_sum(sum) * (1.0f / COLUMNS);
    float squares = 0;
#pragma unroll
    for (u32 k = 0; k < VECTORS; k++) {
        v[k] = make_float4(v[k].x - mean, v[k].y - mean, v[k].z - mean, v[k].w - mean);
        squares = fmaf(v[k].x, v[k].x, fmaf(v[k].y, v[k].y, fmaf(v[k].z, v[k].z, fmaf(v[k].w, v[k].w, squares))));
    }
    const float factor = rsqrtf(warp_sum(squares) * (1.0f / COLUMNS) + 1e-5f);
#pragma unroll
    for (u32 k = 0; k < VECTORS; k++) {
        const float4 a = scale[lane + k * 32], b = shift[lane + k * 32];
        y[row + k * 32] = make_float4(fmaf(v[k].x * factor, a.x, b.x), fmaf(v[k].y * factor, a.y, b.y),
                                      fmaf(v[k].z * factor, a.z, b.z), fmaf(v[k].w * factor, a.w, b.w));
    }
}
