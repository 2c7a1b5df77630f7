// Histogram of the squared lengths of vectors: in[vectors][16] to counts[16]; a bin is 1 / scale wide, the last one open; vectors come by 64.
#include "case.cuh"

constexpr u32 BINS = 16;

// The bin of a vector that four neighbouring lanes hold.
__device__ __forceinline__ u32 bin_of(float4 part, float scale) {
    float square = part.x * part.x;
    square = fmaf(part.y, part.y, square);
    square = fmaf(part.z, part.z, square);
    square = fmaf(part.w, part.w, square);
    square += __shfl_xor_sync(0xffffffffu, square, 1);
    square += __shfl_xor_sync(0xffffffffu, square, 2);
    return min((u32)(square * scale), BINS - 1);
}

// Four lanes have a vector, and the blocks go through all of them together.
extern "C" __global__ void __launch_bounds__(256)
slow(const float4 *__restrict__ in, u32 *__restrict__ counts, u32 vectors, float scale) {
    const u32 stride = gridDim.x * 256;
#pragma unroll 2
    for (u32 i = blockIdx.x * 256; i < vectors * 4; i += stride) {
        const u32 bin = bin_of(in[i + threadIdx.x], scale);
        if (threadIdx.x % 4 == 0) atomicAdd(&counts[bin], 1u);
    }
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ in, u32 *__restrict__ counts, u32 vectors, float scale) {
    __shared__ u32 own[BINS];
    if (threadIdx.x < BINS) own[threadIdx.x] = 0;
    __syncthreads();
    const u32 stride = gridDim.x * 256;
#pragma unroll 2
    for (u32 i = blockIdx.x * 256; i < vectors * 4; i += stride) {
        const u32 bin = bin_of(in[i + threadIdx.x], scale);
        if (threadIdx.x % 4 == 0) atomicAdd(&own[bin], 1u);
    }
    __syncthreads();
    if (threadIdx.x < BINS) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}
