// Adds up the values and the squares of every column: in[rows][columns], sums[columns], squares[columns], which start
// at zero; rows is a multiple of 256, columns of 128.
#include "case.cuh"

static __device__ __forceinline__ float over_warp(float value) {
#pragma unroll
    for (u32 apart = 16; apart > 0; apart /= 2) value += __shfl_down_sync(0xffffffff, value, apart);
    return value;
}

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ in, float *__restrict__ sums, float *__restrict__ squares, u32 rows, u32 columns) {
    __shared__ float2 partial[8];
    const u32 column = blockIdx.x;
    float sum = 0.0f, square = 0.0f;
    for (u32 row = threadIdx.x; row < rows; row += 256) {
        const float value = in[(u64)row * columns + column];
        sum += value;
        square += value * value;
    }
    sum = over_warp(sum);
    square = over_warp(square);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = make_float2(sum, square);
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = over_warp(threadIdx.x < 8 ? partial[threadIdx.x].x : 0.0f);
        square = over_warp(threadIdx.x < 8 ? partial[threadIdx.x].y : 0.0f);
        if (threadIdx.x == 0) {
            sums[column] = sum;
            squares[column] = square;
        }
    }
}

constexpr u32 BAND = 256;

// A block has 128 columns and a band of rows; a thread has four columns of every eighth row.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ in, float *__restrict__ sums, float *__restrict__ squares, u32 rows, u32 columns) {
    __shared__ float4 partial[2][8][32];
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u32 first = blockIdx.x * 128;
    const float *from = in + (u64)(blockIdx.y * BAND + warp) * columns + first + lane * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 square = sum;
#pragma unroll 4
    for (u32 k = 0; k < BAND; k += 8) {
        const float4 v = *(const float4 *)from;
        from += (u64)8 * columns;
        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
        square.x += v.x * v.x;
        square.y += v.y * v.y;
        square.z += v.z * v.z;
        square.w += v.w * v.w;
    }
    partial[0][warp][lane] = sum;
    partial[1][warp][lane] = square;
    __syncthreads();
    const u32 column = threadIdx.x % 128;
    const float *const parts = (const float *)partial[threadIdx.x / 128] + column;
    float total = 0.0f;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) total += parts[k * 128];
    atomicAdd((threadIdx.x < 128 ? sums : squares) + first + column, total);
}
