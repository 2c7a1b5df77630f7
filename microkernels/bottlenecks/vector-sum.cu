// Adds up a vector: x[count], total[1]; count is a multiple of 32768, of which each block has so many.
#include "case.cuh"

static __device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ x, float *__restrict__ total) {
    __shared__ float sums[8];
    const u32 t = threadIdx.x, first = blockIdx.x * 8192 + t;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 2
    for (u32 k = 0; k < 8; k++) {
        const u32 i = first + k * 1024;
        const float4 a = x[i], b = x[i + 256], c = x[i + 512], d = x[i + 768];
        sum.x += (a.x + b.x) + (c.x + d.x);
        sum.y += (a.y + b.y) + (c.y + d.y);
        sum.z += (a.z + b.z) + (c.z + d.z);
        sum.w += (a.w + b.w) + (c.w + d.w);
    }
    const float of_warp = warp_sum((sum.x + sum.y) + (sum.z + sum.w));
    if (t % 32 == 0) sums[t / 32] = of_warp;
    __syncthreads();
    if (t >= 32) return;
    const float of_block = warp_sum(t < 8 ? sums[t] : 0.0f);
    if (t == 0) atomicAdd(total, of_block);
}
