// Binomial blur of nine pixels along the rows of an image of four channels, which leaves planes: in[rows][columns][4] to out[4][rows][columns].
#include "case.cuh"

constexpr u32 REACH = 4;
constexpr u32 TILE = 256;

__device__ __forceinline__ float weight(u32 k) {
    constexpr float WEIGHTS[2 * REACH + 1] = {
        0.00390625f, 0.03125f, 0.109375f, 0.21875f, 0.2734375f, 0.21875f, 0.109375f, 0.03125f, 0.00390625f};
    return WEIGHTS[k];
}

// Pixels beyond the edge repeat the last one.
__device__ __forceinline__ float4 pixel(const float4 *__restrict__ row, i32 column, u32 columns) {
    return row[min(max(column, 0), (i32)columns - 1)];
}

// A block has 256 pixels of a row; 64 threads take a channel.
extern "C" __global__ void __launch_bounds__(256)
slow(const float4 *__restrict__ in, float *__restrict__ out, u32 rows, u32 columns) {
    __shared__ float4 tile[TILE + 2 * REACH];
    const u32 begin = blockIdx.x * TILE;
    const float4 *const row = in + (u64)blockIdx.y * columns;
    const i32 first = (i32)(begin + threadIdx.x) - (i32)REACH;
    tile[threadIdx.x] = pixel(row, first, columns);
    if (threadIdx.x < 2 * REACH) tile[threadIdx.x + TILE] = pixel(row, first + (i32)TILE, columns);
    __syncthreads();
    const u32 channel = threadIdx.x / 64;
    const float *const values = (const float *)tile + channel;
    float *const plane = out + ((u64)channel * rows + blockIdx.y) * columns + begin;
#pragma unroll
    for (u32 j = 0; j < TILE; j += 64) {
        const u32 x = threadIdx.x % 64 + j;
        float sum = 0.0f;
#pragma unroll
        for (u32 k = 0; k <= 2 * REACH; ++k) {
            sum += weight(k) * values[(x + k) * 4];
        }
        if (begin + x < columns) plane[x] = sum;
    }
}

constexpr u32 PITCH = TILE + 2 * REACH;

// Writes the channels of a pixel into four planes.
__device__ __forceinline__ void split(float *planes, float4 value) {
    planes[0] = value.x;
    planes[PITCH] = value.y;
    planes[2 * PITCH] = value.z;
    planes[3 * PITCH] = value.w;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ in, float *__restrict__ out, u32 rows, u32 columns) {
    __shared__ float4 tile[4 * PITCH / 4];
    const u32 begin = blockIdx.x * TILE;
    const float4 *const row = in + (u64)blockIdx.y * columns;
    const i32 first = (i32)(begin + threadIdx.x) - (i32)REACH;
    split((float *)tile + threadIdx.x, pixel(row, first, columns));
    if (threadIdx.x < 2 * REACH) split((float *)tile + threadIdx.x + TILE, pixel(row, first + (i32)TILE, columns));
    __syncthreads();
    // A thread has four neighbouring pixels of a plane.
    const u32 channel = threadIdx.x / 64;
    const u32 group = threadIdx.x % 64;
    if (begin + group * 4 >= columns) return;
    const float4 *const from = tile + channel * (PITCH / 4) + group;
    const float4 left = from[0], middle = from[1], right = from[2];
    const float values[12] = {left.x,   left.y,  left.z,  left.w,  middle.x, middle.y,
                              middle.z, middle.w, right.x, right.y, right.z,  right.w};
    float sums[4] = {};
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
#pragma unroll
        for (u32 k = 0; k <= 2 * REACH; ++k) {
            sums[j] += weight(k) * values[j + k];
        }
    }
    float4 *const plane = (float4 *)(out + ((u64)channel * rows + blockIdx.y) * columns + begin);
    plane[group] = make_float4(sums[0], sums[1], sums[2], sums[3]);
}
