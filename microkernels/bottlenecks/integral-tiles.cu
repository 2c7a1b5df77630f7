// Summed-area tables of the 32 by 32 tiles of an image: in[rows][columns] to out[rows][columns], sides multiples of 32 and 128.
#include "case.cuh"

// A warp has a tile. Eight lanes take 128 bytes of a row, four rows at a time; a lane sums a row, then a column.
extern "C" __global__ void __launch_bounds__(128)
slow(const float *__restrict__ in, float *__restrict__ out, u32 columns) {
    extern __shared__ float tiles[];
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    float *const tile = tiles + warp * 32 * 32;
    const u32 across = lane % 8 * 4;
    const u32 down = lane / 8;
    const u32 row = blockIdx.y * 32 + down;
    const u32 column = (blockIdx.x * 4 + warp) * 32 + across;
#pragma unroll
    for (u32 k = 0; k < 32; k += 4) {
        *(float4 *)(tile + (down + k) * 32 + across) = *(const float4 *)(in + (u64)(row + k) * columns + column);
    }
    __syncwarp();
    float along_row = 0.0f;
#pragma unroll 1
    for (u32 k = 0; k < 32; ++k) {
        along_row += tile[lane * 32 + k];
        tile[lane * 32 + k] = along_row;
    }
    __syncwarp();
    float along_column = 0.0f;
#pragma unroll 8
    for (u32 k = 0; k < 32; ++k) {
        along_column += tile[k * 32 + lane];
        tile[k * 32 + lane] = along_column;
    }
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < 32; k += 4) {
        *(float4 *)(out + (u64)(row + k) * columns + column) = *(const float4 *)(tile + (down + k) * 32 + across);
    }
}

extern "C" __global__ void __launch_bounds__(128)
fixed(const float *__restrict__ in, float *__restrict__ out, u32 columns) {
    extern __shared__ float tiles[];
    constexpr u32 PITCH = 33;
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    float *const tile = tiles + warp * 32 * PITCH;
    const u32 across = lane % 8 * 4;
    const u32 down = lane / 8;
    const u32 row = blockIdx.y * 32 + down;
    const u32 column = (blockIdx.x * 4 + warp) * 32 + across;
#pragma unroll
    for (u32 k = 0; k < 32; k += 4) {
        const float4 part = *(const float4 *)(in + (u64)(row + k) * columns + column);
        float *const to = tile + (down + k) * PITCH + across;
        to[0] = part.x;
        to[1] = part.y;
        to[2] = part.z;
        to[3] = part.w;
    }
    __syncwarp();
    float along_row = 0.0f;
#pragma unroll 1
    for (u32 k = 0; k < 32; ++k) {
        along_row += tile[lane * PITCH + k];
        tile[lane * PITCH + k] = along_row;
    }
    __syncwarp();
    float along_column = 0.0f;
#pragma unroll 8
    for (u32 k = 0; k < 32; ++k) {
        along_column += tile[k * PITCH + lane];
        tile[k * PITCH + lane] = along_column;
    }
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < 32; k += 4) {
        const float *const from = tile + (down + k) * PITCH + across;
        const float4 part = make_float4(from[0], from[1], from[2], from[3]);
        *(float4 *)(out + (u64)(row + k) * columns + column) = part;
    }
}
