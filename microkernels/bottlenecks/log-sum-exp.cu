// Computes the logarithm of the sum of exponentials of each row: x[rows][columns], out[rows]; columns is a multiple of
// 4096.
#include "case.cuh"

static __device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}

static __device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

#define LARGEST(v) fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w))
// exp(v - peak), summed over the four.
#define WEIGHT(v, peak) ((__expf(v.x - peak) + __expf(v.y - peak)) + (__expf(v.z - peak) + __expf(v.w - peak)))

extern "C" __global__ void __launch_bounds__(256, 8)
slow(const float4 *__restrict__ x, float *__restrict__ out, u32 columns) {
    __shared__ float peaks[8], sums[8];
    const u32 t = threadIdx.x, n = columns / 4;
    const float4 *row = x + (u64)blockIdx.x * n;
    float peak = -3.0e38f;
#pragma unroll 1
    for (u32 i = t; i < n; i += 4 * 256) {
        const float4 e = row[i], f = row[i + 256], g = row[i + 512], h = row[i + 768];
        peak = fmaxf(peak, fmaxf(fmaxf(LARGEST(e), LARGEST(f)), fmaxf(LARGEST(g), LARGEST(h))));
    }
    peak = warp_max(peak);
    if (t % 32 == 0) peaks[t / 32] = peak;
    __syncthreads();
    peak = warp_max(peaks[t % 8]);
    float sum = 0;
#pragma unroll 1
    for (u32 i = t; i < n; i += 4 * 256) {
        const float4 a = row[i], b = row[i + 256], c = row[i + 512], d = row[i + 768];
        sum += (WEIGHT(a, peak) + WEIGHT(b, peak)) + (WEIGHT(c, peak) + WEIGHT(d, peak));
    }
    sum = warp_sum(sum);
    if (t % 32 == 0) sums[t / 32] = sum;
    __syncthreads();
    if (t >= 32) return;
    sum = warp_sum(t < 8 ? sums[t] : 0.0f);
    if (t == 0) out[blockIdx.x] = peak + logf(sum);
}

extern "C" __global__ void __launch_bounds__(256, 8)
fixed(const float4 *__restrict__ x, float *__restrict__ out, u32 columns) {
    __shared__ float peaks[8], sums[8];
    const u32 t = threadIdx.x, n = columns / 4;
    const float4 *row = x + (u64)blockIdx.x * n;
    float peak = -3.0e38f, sum = 0;
#pragma unroll 1
    for (u32 i = t; i < n; i += 4 * 256) {
        const float4 a = row[i], b = row[i + 256], c = row[i + 512], d = row[i + 768];
        const float higher = fmaxf(peak, fmaxf(fmaxf(LARGEST(a), LARGEST(b)), fmaxf(LARGEST(c), LARGEST(d))));
        const float added = (WEIGHT(a, higher) + WEIGHT(b, higher)) + (WEIGHT(c, higher) + WEIGHT(d, higher));
        sum = sum * __expf(peak - higher) + added;
        peak = higher;
    }
    const float of_warp = warp_max(peak);
    sum = warp_sum(sum * __expf(peak - of_warp));
    if (t % 32 == 0) {
        peaks[t / 32] = of_warp;
        sums[t / 32] = sum;
    }
    __syncthreads();
    if (t >= 32) return;
    peak = warp_max(peaks[t % 8]);
    sum = warp_sum(t < 8 ? sums[t] * __expf(peaks[t] - peak) : 0.0f);
    if (t == 0) out[blockIdx.x] = peak + logf(sum);
}
