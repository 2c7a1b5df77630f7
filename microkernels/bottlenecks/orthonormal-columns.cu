// Makes the columns of many complex 4 by 4 matrices orthonormal (Gram-Schmidt): in[matrices][4][4] to out of the same shape; matrices come by 128.
#include "case.cuh"

constexpr u32 ENTRIES = 16;

// A warp has 32 matrices, moves them through shared memory, and gives each of them to a lane.
extern "C" __global__ void __launch_bounds__(128)
slow(const float2 *__restrict__ in, float2 *__restrict__ out) {
    extern __shared__ float2 tiles[];
    const u32 lane = threadIdx.x % 32;
    const u64 begin = (u64)(blockIdx.x * 128 + threadIdx.x - lane) * ENTRIES;
    float2 *const tile = tiles + (threadIdx.x - lane) * ENTRIES;
#pragma unroll
    for (u32 i = 0; i < 32 * ENTRIES; i += 32) {
        tile[i + lane] = in[begin + i + lane];
    }
    __syncwarp();
    float2 *const matrix = tile + lane * ENTRIES;
#pragma unroll 1
    for (u32 column = 0; column < 4; ++column) {
        float2 unit[4];
        float power = 0.0f;
#pragma unroll
        for (u32 row = 0; row < 4; ++row) {
            unit[row] = matrix[row * 4 + column];
            power = fmaf(unit[row].x, unit[row].x, power);
            power = fmaf(unit[row].y, unit[row].y, power);
        }
        const float scale = rsqrtf(power);
#pragma unroll
        for (u32 row = 0; row < 4; ++row) {
            unit[row] = make_float2(unit[row].x * scale, unit[row].y * scale);
            matrix[row * 4 + column] = unit[row];
        }
#pragma unroll 1
        for (u32 other = column + 1; other < 4; ++other) {
            float2 entry[4];
            float2 share = make_float2(0.0f, 0.0f);
#pragma unroll
            for (u32 row = 0; row < 4; ++row) {
                entry[row] = matrix[row * 4 + other];
                share.x = fmaf(unit[row].x, entry[row].x, fmaf(unit[row].y, entry[row].y, share.x));
                share.y = fmaf(unit[row].x, entry[row].y, fmaf(-unit[row].y, entry[row].x, share.y));
            }
#pragma unroll
            for (u32 row = 0; row < 4; ++row) {
                entry[row].x = fmaf(-share.x, unit[row].x, fmaf(share.y, unit[row].y, entry[row].x));
                entry[row].y = fmaf(-share.x, unit[row].y, fmaf(-share.y, unit[row].x, entry[row].y));
                matrix[row * 4 + other] = entry[row];
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < 32 * ENTRIES; i += 32) {
        out[begin + i + lane] = tile[i + lane];
    }
}

extern "C" __global__ void __launch_bounds__(128)
fixed(const float2 *__restrict__ in, float2 *__restrict__ out) {
    extern __shared__ float2 tiles[];
    const u32 lane = threadIdx.x % 32;
    const u64 begin = (u64)(blockIdx.x * 128 + threadIdx.x - lane) * ENTRIES;
    constexpr u32 PITCH = ENTRIES + 1;
    float2 *const tile = tiles + (threadIdx.x - lane) * PITCH;
    // A warp moves two matrices at a time.
    const u32 place = lane / ENTRIES * PITCH + lane % ENTRIES;
#pragma unroll
    for (u32 i = 0; i < 32 * ENTRIES; i += 32) {
        tile[i / ENTRIES * PITCH + place] = in[begin + i + lane];
    }
    __syncwarp();
    float2 *const matrix = tile + lane * PITCH;
#pragma unroll 1
    for (u32 column = 0; column < 4; ++column) {
        float2 unit[4];
        float power = 0.0f;
#pragma unroll
        for (u32 row = 0; row < 4; ++row) {
            unit[row] = matrix[row * 4 + column];
            power = fmaf(unit[row].x, unit[row].x, power);
            power = fmaf(unit[row].y, unit[row].y, power);
        }
        const float scale = rsqrtf(power);
#pragma unroll
        for (u32 row = 0; row < 4; ++row) {
            unit[row] = make_float2(unit[row].x * scale, unit[row].y * scale);
            matrix[row * 4 + column] = unit[row];
        }
#pragma unroll 1
        for (u32 other = column + 1; other < 4; ++other) {
            float2 entry[4];
            float2 share = make_float2(0.0f, 0.0f);
#pragma unroll
            for (u32 row = 0; row < 4; ++row) {
                entry[row] = matrix[row * 4 + other];
                share.x = fmaf(unit[row].x, entry[row].x, fmaf(unit[row].y, entry[row].y, share.x));
                share.y = fmaf(unit[row].x, entry[row].y, fmaf(-unit[row].y, entry[row].x, share.y));
            }
#pragma unroll
            for (u32 row = 0; row < 4; ++row) {
                entry[row].x = fmaf(-share.x, unit[row].x, fmaf(share.y, unit[row].y, entry[row].x));
                entry[row].y = fmaf(-share.x, unit[row].y, fmaf(-share.y, unit[row].x, entry[row].y));
                matrix[row * 4 + other] = entry[row];
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < 32 * ENTRIES; i += 32) {
        out[begin + i + lane] = tile[i / ENTRIES * PITCH + place];
    }
}
