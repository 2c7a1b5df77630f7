// Squared norm of the gradient of each of a few layers: gradients[layers][weights] → norms[layers], which start at
// zero. weights is a multiple of 8192.
#include "case.cuh"

// Adds up a value over the block; thread 0 has the sum.
template <u32 warps> static __device__ __forceinline__ float over_block(float value) {
    __shared__ float parts[warps];
#pragma unroll
    for (u32 apart = 16; apart > 0; apart /= 2) value += __shfl_down_sync(0xffffffff, value, apart);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x >= 32) return 0.0f;
    value = threadIdx.x < warps ? parts[threadIdx.x] : 0.0f;
#pragma unroll
    for (u32 apart = warps / 2; apart > 0; apart /= 2) value += __shfl_down_sync(0xffffffff, value, apart);
    return value;
}

static __device__ __forceinline__ float square(float4 v) { return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }

extern "C" __global__ void __launch_bounds__(1024)
slow(const float *__restrict__ gradients, float *__restrict__ norms, u32 weights) {
    const float4 *from = (const float4 *)(gradients + (u64)blockIdx.x * weights);
    float sum = 0.0f;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < weights / 4; i += 1024) sum += square(from[i]);
    sum = over_block<32>(sum);
    if (threadIdx.x == 0) norms[blockIdx.x] = sum;
}

// Blocks along y share a layer, 8192 weights each.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ gradients, float *__restrict__ norms, u32 weights) {
    const float4 *from = (const float4 *)(gradients + (u64)blockIdx.x * weights + blockIdx.y * 8192);
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < 2048; i += 256) sum += square(from[i + threadIdx.x]);
    sum = over_block<8>(sum);
    if (threadIdx.x == 0) atomicAdd(&norms[blockIdx.x], sum);
}
