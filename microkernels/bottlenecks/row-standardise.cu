// Shifts and scales each row of a matrix to mean zero and variance one: in[rows][1024] to out[rows][1024]; rows come by 16.
#include "case.cuh"

constexpr u32 COLUMNS = 1024;
constexpr float EPSILON = 1e-5f;

// A block takes sixteen rows, one after the other; a thread has a column and loads the next row ahead.
extern "C" __global__ void __launch_bounds__(1024)
slow(const float *__restrict__ in, float *__restrict__ out) {
    constexpr u32 ROWS = 16;
    __shared__ float parts[COLUMNS];
    const u32 column = threadIdx.x;
    const u64 first = (u64)blockIdx.x * ROWS * COLUMNS + column;
    float next = in[first];
#pragma unroll 1
    for (u32 row = 0; row < ROWS; ++row) {
        const u64 place = first + (u64)row * COLUMNS;
        float value = next;
        if (row + 1 < ROWS) next = in[place + COLUMNS];
        float sums[2];
#pragma unroll
        for (u32 moment = 0; moment < 2; ++moment) {
            parts[column] = moment == 0 ? value : value * value;
            __syncthreads();  // all have written
#pragma unroll
            for (u32 half = COLUMNS / 2; half > 0; half /= 2) {
                if (column < half) parts[column] += parts[column + half];
                __syncthreads();  // all have added
            }
            sums[moment] = parts[0];
            if (moment == 0) value -= sums[0] / COLUMNS;
            __syncthreads();  // all have read
        }
        out[place] = value * rsqrtf(sums[1] / COLUMNS + EPSILON);
    }
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (u32 distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

// A warp has a row, a lane 32 of its columns in registers.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ in, float *__restrict__ out) {
    const u32 lane = threadIdx.x % 32;
    const u64 place = (u64)(blockIdx.x * 8 + threadIdx.x / 32) * (COLUMNS / 4) + lane;
    const float4 *const from = (const float4 *)in + place;
    float4 values[8];
    float sum = 0.0f;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) values[k] = from[k * 32];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) sum += (values[k].x + values[k].y) + (values[k].z + values[k].w);
    const float mean = warp_sum(sum) / COLUMNS;
    float squares = 0.0f;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
        values[k] = make_float4(values[k].x - mean, values[k].y - mean, values[k].z - mean, values[k].w - mean);
        squares = fmaf(values[k].x, values[k].x, squares);
        squares = fmaf(values[k].y, values[k].y, squares);
        squares = fmaf(values[k].z, values[k].z, squares);
        squares = fmaf(values[k].w, values[k].w, squares);
    }
    const float scale = rsqrtf(warp_sum(squares) / COLUMNS + EPSILON);
    float4 *const to = (float4 *)out + place;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
        to[k * 32] = make_float4(values[k].x * scale, values[k].y * scale, values[k].z * scale, values[k].w * scale);
    }
}
