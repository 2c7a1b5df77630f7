// Filters each column of an image with 128 taps: in[rows + 127][columns] → out[rows][columns].
// A block makes 128 rows of 32 columns.
#include "case.cuh"

constexpr u32 taps = 128, tile_rows = 128, lines = tile_rows + taps - 1, reach = 16;

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, u32 columns)
{
    __shared__ float tile[lines + 1][32];
    __shared__ __align__(16) double weight[taps];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t corner = (size_t)blockIdx.y * tile_rows * columns + blockIdx.x * 32 + lane;
    for (u32 line = warp; line < lines; line += 8)
        tile[line][lane] = in[corner + (size_t)line * columns];
    if (threadIdx.x < taps)
        weight[threadIdx.x] = weights[threadIdx.x];
    __syncthreads();

    const u32 top = warp * reach;
    double sum[reach], window[reach + reach];
#pragma unroll
    for (u32 row = 0; row < reach; ++row) {
        sum[row] = 0;
        window[row] = tile[top + row][lane];
    }
#pragma unroll 1
    for (u32 tap = 0; tap < taps; tap += 2 * reach) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 first = tap + half * reach;
#pragma unroll
            for (u32 row = 0; row < reach; ++row)
                window[(half + 1) % 2 * reach + row] = tile[top + first + reach + row][lane];
#pragma unroll
            for (u32 step = 0; step < reach; ++step)
#pragma unroll
                for (u32 row = 0; row < reach; ++row)
                    sum[row] += weight[first + step] * window[(half * reach + step + row) % (2 * reach)];
        }
    }
#pragma unroll
    for (u32 row = 0; row < reach; ++row)
        out[corner + (size_t)(top + row) * columns] = sum[row];
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, u32 columns)
{
    __shared__ float tile[lines + 1][32];
    __shared__ __align__(16) float weight[taps];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t corner = (size_t)blockIdx.y * tile_rows * columns + blockIdx.x * 32 + lane;
    for (u32 line = warp; line < lines; line += 8)
        tile[line][lane] = in[corner + (size_t)line * columns];
    if (threadIdx.x < taps)
        weight[threadIdx.x] = weights[threadIdx.x];
    __syncthreads();

    const u32 top = warp * reach;
    float sum[reach], window[reach + reach];
#pragma unroll
    for (u32 row = 0; row < reach; ++row) {
        sum[row] = 0;
        window[row] = tile[top + row][lane];
    }
#pragma unroll 1
    for (u32 tap = 0; tap < taps; tap += 2 * reach) {
        float part[reach]; // of 32 products: their rounding errors do not meet the large sum
#pragma unroll
        for (u32 row = 0; row < reach; ++row)
            part[row] = 0;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 first = tap + half * reach;
#pragma unroll
            for (u32 row = 0; row < reach; ++row)
                window[(half + 1) % 2 * reach + row] = tile[top + first + reach + row][lane];
#pragma unroll
            for (u32 step = 0; step < reach; ++step)
#pragma unroll
                for (u32 row = 0; row < reach; ++row)
                    part[row] += weight[first + step] * window[(half * reach + step + row) % (2 * reach)];
        }
#pragma unroll
        for (u32 row = 0; row < reach; ++row)
            sum[row] += part[row];
    }
#pragma unroll
    for (u32 row = 0; row < reach; ++row)
        out[corner + (size_t)(top + row) * columns] = sum[row];
}
