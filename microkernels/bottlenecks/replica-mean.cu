// Averages the gradients of 8 replicas: gradients[8][weights] → mean[weights]. The weights are those of many tensors of
// one size, `tensor`; both are multiples of 4.
#include "case.cuh"

constexpr u32 replicas = 8;

// Averages group number i of four weights.
static __device__ __forceinline__ void average(const float *__restrict__ gradients, float *__restrict__ mean, u32 i,
                                               u32 weights) {
    const float4 *from = (const float4 *)gradients + i;
    float4 parts[replicas];
#pragma unroll
    for (u32 k = 0; k < replicas; ++k) parts[k] = from[k * (weights / 4)];
    float4 sum = parts[0];
#pragma unroll
    for (u32 k = 1; k < replicas; ++k)
        sum = make_float4(sum.x + parts[k].x, sum.y + parts[k].y, sum.z + parts[k].z, sum.w + parts[k].w);
    const float share = 1.0f / replicas;
    ((float4 *)mean)[i] = make_float4(sum.x * share, sum.y * share, sum.z * share, sum.w * share);
}

// Averages tensor number `launch`.
extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ gradients, float *__restrict__ mean, u32 tensor, u32 weights, u32 launch) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i < tensor / 4) average(gradients, mean, launch * (tensor / 4) + i, weights);
}

// Averages all tensors.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ gradients, float *__restrict__ mean, u32 tensor, u32 weights, u32 launch) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i < weights / 4) average(gradients, mean, i, weights);
}
