// The sum of all values of an array that are above a limit: in[values] to total[1]; values come by four.
#include "case.cuh"

// The threads go through the array together, four values each.
extern "C" __global__ void __launch_bounds__(256)
slow(const float4 *__restrict__ in, float *__restrict__ total, u32 values, float limit) {
    const u32 stride = gridDim.x * 256;
#pragma unroll 1
    for (u32 i = blockIdx.x * 256 + threadIdx.x; i < values / 4; i += stride) {
        const float4 four = in[i];
        if (four.x > limit) atomicAdd(total, four.x);
        if (four.y > limit) atomicAdd(total, four.y);
        if (four.z > limit) atomicAdd(total, four.z);
        if (four.w > limit) atomicAdd(total, four.w);
    }
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (u32 distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ in, float *__restrict__ total, u32 values, float limit) {
    __shared__ float parts[8];
    const u32 stride = gridDim.x * 256;
    float sum = 0.0f;
#pragma unroll 2
    for (u32 i = blockIdx.x * 256 + threadIdx.x; i < values / 4; i += stride) {
        const float4 four = in[i];
        sum += four.x > limit ? four.x : 0.0f;
        sum += four.y > limit ? four.y : 0.0f;
        sum += four.z > limit ? four.z : 0.0f;
        sum += four.w > limit ? four.w : 0.0f;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < 8 ? parts[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) atomicAdd(total, sum);
    }
}
