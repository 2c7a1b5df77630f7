// Takes from each vector its parts along 32 directions, one after the other: vectors[count][512], changed in place,
// basis[32][512]. A block has a vector, a thread two of its elements.
#include "case.cuh"

constexpr u32 directions = 32, threads = 256;

extern "C" __global__ void __launch_bounds__(threads)
slow(float2 *__restrict__ vectors, const float2 *__restrict__ basis, float scale) {
    __shared__ float part[threads];
    const u32 t = threadIdx.x;
    float2 value = vectors[(u64)blockIdx.x * threads + t];
#pragma unroll 1
    for (u32 k = 0; k < directions; ++k) {
        const float2 along = basis[k * threads + t];
        part[t] = fmaf(value.x, along.x, value.y * along.y);
        __syncthreads();
#pragma unroll
        for (u32 half = threads / 2; half > 0; half /= 2) {
            if (t < half) part[t] += part[t + half];
            __syncthreads();  // the sums of this step are complete
        }
        const float length = scale * part[0];
        __syncthreads();
        value.x = fmaf(-length, along.x, value.x);
        value.y = fmaf(-length, along.y, value.y);
    }
    vectors[(u64)blockIdx.x * threads + t] = value;
}

static __device__ __forceinline__ float over_warp(float value) {
#pragma unroll
    for (u32 apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffff, value, apart);
    return value;
}

// Each warp leaves its sum; the next direction's go to the other half of `part`, so that one barrier is enough.
extern "C" __global__ void __launch_bounds__(threads)
fixed(float2 *__restrict__ vectors, const float2 *__restrict__ basis, float scale) {
    __shared__ float4 part[2][2];
    const u32 t = threadIdx.x;
    float2 value = vectors[(u64)blockIdx.x * threads + t];
#pragma unroll 1
    for (u32 k = 0; k < directions; ++k) {
        const float2 along = basis[k * threads + t];
        const float sum = over_warp(fmaf(value.x, along.x, value.y * along.y));
        if (t % 32 == 0) ((float *)part[k % 2])[t / 32] = sum;
        __syncthreads();
        const float4 low = part[k % 2][0], high = part[k % 2][1];
        const float length = scale * (((low.x + low.y) + (low.z + low.w)) + ((high.x + high.y) + (high.z + high.w)));
        value.x = fmaf(-length, along.x, value.x);
        value.y = fmaf(-length, along.y, value.y);
    }
    vectors[(u64)blockIdx.x * threads + t] = value;
}
