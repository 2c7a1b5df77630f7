// Electric potential in a plane of 1024 by `rows` points, a quarter apart: charges[count] = (x, y, z, charge) →
// potential[rows][1024] = Σ charge ÷ distance. rows is a multiple of 128, count of 512.
#include "case.cuh"

constexpr u32 across = 1024;
constexpr float spacing = 0.25f;

// A block has a tile of 128 columns, a thread `own` neighbouring rows of one of them.
template <u32 threads, u32 own>
static __device__ __forceinline__ void potential_of_tile(const float4 *__restrict__ charges,
                                                         float *__restrict__ potential, u32 count) {
    __shared__ float4 staged[threads];
    const u32 column = blockIdx.x * 128 + threadIdx.x % 128;
    const u32 first = (blockIdx.y * (threads / 128) + threadIdx.x / 128) * own;
    const float x = (float)column * spacing;
    float y[own], sum[own];
#pragma unroll
    for (u32 k = 0; k < own; ++k) {
        y[k] = (float)(first + k) * spacing;
        sum[k] = 0.0f;
    }
    for (u32 next = 0; next < count; next += threads) {
        __syncthreads();
        staged[threadIdx.x] = charges[next + threadIdx.x];
        __syncthreads();
        for (u32 i = 0; i < threads; ++i) {
            const float4 from = staged[i];
            const float dx = x - from.x, beside = dx * dx + from.z * from.z;
#pragma unroll
            for (u32 k = 0; k < own; ++k) {
                const float dy = y[k] - from.y;
                sum[k] += from.w * rsqrtf(dy * dy + beside);
            }
        }
    }
#pragma unroll
    for (u32 k = 0; k < own; ++k) potential[(first + k) * across + column] = sum[k];
}

extern "C" __global__ void __launch_bounds__(512)
slow(const float4 *__restrict__ charges, float *__restrict__ potential, u32 count) {
    potential_of_tile<512, 32>(charges, potential, count);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ charges, float *__restrict__ potential, u32 count) {
    potential_of_tile<256, 4>(charges, potential, count);
}
