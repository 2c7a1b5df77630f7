// Products of all features with all others: products[rows][columns] = left[rows][depth] · right[columns][depth]ᵀ in FP32;
// rows and columns are multiples of 128, depth of 16.
#include "tensor.cuh"

constexpr u32 tile = 128, part = 16;  // of the depth

// Four values of the depth of a row of a tile, as this thread moves them: rows copied and copied + 64.
static __device__ __forceinline__ void fetch(float4 (&to)[2], const float *__restrict__ from, u32 depth) {
    const float *const mine = from + (u64)(threadIdx.x / 4) * depth + threadIdx.x % 4 * 4;
    to[0] = *(const float4 *)mine;
    to[1] = *(const float4 *)(mine + (u64)64 * depth);
}

// A row of `held` is one value of the depth; from 8 of these on, eight rows of the tile change places with the next
// eight, so that a warp's stores fall on all banks.
static __device__ __forceinline__ void hold(float (*held)[tile + 4], const float4 (&values)[2]) {
    const u32 first = threadIdx.x % 4 * 4, row = threadIdx.x / 4 ^ first / 8 * 8;
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        held[first][row + 64 * i] = values[i].x;
        held[first + 1][row + 64 * i] = values[i].y;
        held[first + 2][row + 64 * i] = values[i].z;
        held[first + 3][row + 64 * i] = values[i].w;
    }
}

// A block has 128 × 128 products, a thread 8 × 8: two fours of rows and of columns that are 64 apart.
extern "C" __global__ void __launch_bounds__(256, 2)
slow(const float *__restrict__ left, const float *__restrict__ right, float *__restrict__ products, u32 columns,
     u32 depth) {
    __shared__ __align__(16) float held_left[2][part][tile + 4], held_right[2][part][tile + 4];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 row = warp / 2 * 16 + lane / 8 * 4, column = warp % 2 * 32 + lane % 8 * 4;
    const float *from_left = left + (u64)blockIdx.y * tile * depth;
    const float *from_right = right + (u64)blockIdx.x * tile * depth;
    float4 next_left[2], next_right[2];
    fetch(next_left, from_left, depth);
    fetch(next_right, from_right, depth);
    float sums[8][8] = {};
#pragma unroll 1
    for (u32 k = 0; k < depth; k += part) {
        const u32 half = k / part % 2;
        hold(held_left[half], next_left);
        hold(held_right[half], next_right);
        __syncthreads();
        if (k + part < depth) {
            fetch(next_left, from_left += part, depth);
            fetch(next_right, from_right += part, depth);
        }
#pragma unroll
        for (u32 inner = 0; inner < part; ++inner) {
            const u32 swapped = inner / 8 * 8;
            const float *const of_left = held_left[half][inner], *const of_right = held_right[half][inner];
            const float4 a[2] = {*(const float4 *)(of_left + (row ^ swapped)),
                                 *(const float4 *)(of_left + 64 + (row ^ swapped))};
            const float4 b[2] = {*(const float4 *)(of_right + (column ^ swapped)),
                                 *(const float4 *)(of_right + 64 + (column ^ swapped))};
            const float of_rows[8] = {a[0].x, a[0].y, a[0].z, a[0].w, a[1].x, a[1].y, a[1].z, a[1].w};
            const float of_columns[8] = {b[0].x, b[0].y, b[0].z, b[0].w, b[1].x, b[1].y, b[1].z, b[1].w};
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
#pragma unroll
                for (u32 j = 0; j < 8; ++j) sums[i][j] = fmaf(of_rows[i], of_columns[j], sums[i][j]);
        }
    }
    float *const to = products + ((u64)blockIdx.y * tile + row) * columns + blockIdx.x * tile + column;
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
#pragma unroll
        for (u32 j = 0; j < 8; j += 4)
            *(float4 *)(to + (u64)(i / 4 * 64 + i % 4) * columns + j / 4 * 64) =
                make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
}

// The same, a warp 64 × 32. Of a row of 16 values of the depth, chunk c of 16 bytes lies at c ^ row / 2 % 4, so that
// eight rows of ldmatrix fall on all banks.
extern "C" __global__ void __launch_bounds__(256, 2)
fixed(const float *__restrict__ left, const float *__restrict__ right, float *__restrict__ products, u32 columns,
      u32 depth) {
    constexpr u32 stages = 3, chunks = part / 4;
    __shared__ uint4 held[stages][2][tile][chunks];
    const u32 lane = threadIdx.x % 32, first_row = threadIdx.x / 128 * 64, first_column = threadIdx.x / 32 % 4 * 32;
    const u32 copied = threadIdx.x / chunks, chunk = threadIdx.x % chunks, place = chunk ^ copied / 2 % 4;
    const float *const from_left = left + ((u64)blockIdx.y * tile + copied) * depth + chunk * 4;
    const float *const from_right = right + ((u64)blockIdx.x * tile + copied) * depth + chunk * 4;
    const auto copy = [&](u32 at) {
        if (at * part < depth) {
            uint4(*const to)[tile][chunks] = held[at % stages];
#pragma unroll
            for (u32 i = 0; i < tile; i += 64) {
                copy_16(&to[0][copied + i][place], from_left + (u64)i * depth + at * part);
                copy_16(&to[1][copied + i][place], from_right + (u64)i * depth + at * part);
            }
        }
        close_copies();
    };
    copy(0);
    copy(1);
    const u32 named_left = first_row + lane % 16, named_right = first_column + lane / 16 * 8 + lane % 8;
    float sums[4][4][4] = {};
#pragma unroll 1
    for (u32 at = 0; at * part < depth; ++at) {
        wait_copies<1>();
        __syncthreads();
        copy(at + 2);
        const uint4(*const of_left)[chunks] = held[at % stages][0], (*const of_right)[chunks] = held[at % stages][1];
#pragma unroll
        for (u32 step = 0; step < part / 8; ++step) {
            u32 a[4][4], b[2][4];
#pragma unroll
            for (u32 m = 0; m < 4; ++m)
                load_matrices(a[m], &of_left[named_left + 16 * m][(2 * step + lane / 16) ^ named_left / 2 % 4]);
#pragma unroll
            for (u32 n = 0; n < 2; ++n)
                load_matrices(b[n],
                              &of_right[named_right + 16 * n][(2 * step + (lane >> 3 & 1)) ^ named_right / 2 % 4]);
#pragma unroll
            for (u32 m = 0; m < 4; ++m) {
                const float values[4] = {__uint_as_float(a[m][0]), __uint_as_float(a[m][1]), __uint_as_float(a[m][2]),
                                         __uint_as_float(a[m][3])};
#pragma unroll
                for (u32 n = 0; n < 4; ++n)
                    multiply_tf32(sums[m][n], values, __uint_as_float(b[n / 2][n % 2 * 2]),
                                  __uint_as_float(b[n / 2][n % 2 * 2 + 1]));
            }
        }
    }
    const u64 row = (u64)blockIdx.y * tile + first_row + lane / 4;
    float *const to = products + row * columns + blockIdx.x * tile + first_column + lane % 4 * 2;
#pragma unroll
    for (u32 m = 0; m < 4; ++m)
#pragma unroll
        for (u32 n = 0; n < 4; ++n) {
            float *const at = to + (u64)16 * m * columns + 8 * n;
            *(float2 *)at = make_float2(sums[m][n][0], sums[m][n][1]);
            *(float2 *)(at + (u64)8 * columns) = make_float2(sums[m][n][2], sums[m][n][3]);
        }
}
