// Transposes a matrix: in[rows][columns] to out[columns][rows]; both sides are multiples of 32.
#include "case.cuh"

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ in, float *__restrict__ out, u32 rows, u32 columns) {
    const u32 column = blockIdx.x * 32 + threadIdx.x;
    const u32 row = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
    for (u32 k = 0; k < 32; k += 8) {
        const float value = in[(u64)(row + k) * columns + column];
        out[(u64)column * rows + row + k] = value;
    }
}

// A warp keeps a tile of 32 by 32 and a column of padding. Eight lanes take 128 bytes of a row, four rows at a time.
extern "C" __global__ void __launch_bounds__(128)
fixed(const float *__restrict__ in, float *__restrict__ out, u32 rows, u32 columns) {
    __shared__ float tiles[4][32][33];
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u32 column = (blockIdx.x * 4 + warp) * 32;
    const u32 row = blockIdx.y * 32;
    if (column >= columns) return;
    const u32 across = lane % 8 * 4;
    const u32 down = lane / 8;
#pragma unroll
    for (u32 k = 0; k < 32; k += 4) {
        const float4 part = *(const float4 *)(in + (u64)(row + down + k) * columns + column + across);
        tiles[warp][across][down + k] = part.x;
        tiles[warp][across + 1][down + k] = part.y;
        tiles[warp][across + 2][down + k] = part.z;
        tiles[warp][across + 3][down + k] = part.w;
    }
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < 32; k += 4) {
        const float *const from = tiles[warp][down + k] + across;
        const float4 part = make_float4(from[0], from[1], from[2], from[3]);
        *(float4 *)(out + (u64)(column + down + k) * rows + (row + across)) = part;
    }
}
