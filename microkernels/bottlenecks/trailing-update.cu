// Updates the trailing matrix of a blocked factorisation: c[rows][columns] += a[rows][64] · b[columns][64]ᵀ, a and b in
// FP16, c in FP32. columns is a multiple of 4.
#include "tensor.cuh"

constexpr u32 tile = 128, depth = 64, chunks = depth / 8;  // a chunk is 16 bytes

// A block has 128 × 128 of c, a warp 64 × 32. Its part of c is on its way before the panels are. Chunks lie swizzled,
// of a row of a at chunk ^ row % 8, of b at chunk ^ place_of(row), so that eight rows of ldmatrix fall on all banks. Of
// 16 columns, a lane with t = lane % 4 has those from 4·t on: two in one product, two in the next.
extern "C" __global__ void __launch_bounds__(256, 2)
fixed(const uint4 *__restrict__ a, const uint4 *__restrict__ b, float *__restrict__ c, u32 rows, u32 columns) {
    __shared__ uint4 held_a[tile][chunks], held_b[tile][chunks];
    const auto place_of = [](u32 row) { return row & 1 | row >> 1 & 6; };
    const u32 lane = threadIdx.x % 32, warp_row = threadIdx.x / 128 * 64, warp_column = threadIdx.x / 32 % 4 * 32;
    const u32 first_row = blockIdx.y * tile, first_column = blockIdx.x * tile, chunk = threadIdx.x % chunks;
    const u32 row = first_row + warp_row + lane / 4, column = first_column + warp_column + lane % 4 * 4;
    float sums[4][4][4];
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
        const u32 m = i / 4, n = i % 4 / 2 * 2, half = i % 2, at_row = min(row + 16 * m + 8 * half, rows - 1);
        const float4 values = __ldcs((const float4 *)&c[(size_t)at_row * columns + min(column + 8 * n, columns - 4)]);
        sums[m][n][2 * half] = values.x, sums[m][n][2 * half + 1] = values.y;
        sums[m][n + 1][2 * half] = values.z, sums[m][n + 1][2 * half + 1] = values.w;
    }
#pragma unroll
    for (u32 copied = threadIdx.x / chunks; copied < tile; copied += 32) {
        copy_16(&held_a[copied][chunk ^ copied % 8], &a[(size_t)min(first_row + copied, rows - 1) * chunks + chunk]);
        copy_16(&held_b[copied][chunk ^ place_of(copied)],
                &b[(size_t)min(first_column + copied, columns - 1) * chunks + chunk]);
    }
    close_copies();
    wait_copies<0>();
    __syncthreads();

    const u32 named_a = warp_row + lane % 16;
    const u32 named_b = warp_column + (lane >> 1 & 3) * 4 + (lane & 1) + (lane >> 4) * 2;
#pragma unroll
    for (u32 step = 0; step < depth / 16; ++step) {
        u32 left[4][4], right[2][4];
#pragma unroll
        for (u32 m = 0; m < 4; ++m)
            load_matrices(left[m], &held_a[named_a + 16 * m][(2 * step + lane / 16) ^ named_a % 8]);
#pragma unroll
        for (u32 n = 0; n < 2; ++n)
            load_matrices(right[n], &held_b[named_b + 16 * n][(2 * step + (lane >> 3 & 1)) ^ place_of(named_b)]);
#pragma unroll
        for (u32 m = 0; m < 4; ++m)
#pragma unroll
            for (u32 n = 0; n < 4; ++n)
                multiply_f16(sums[m][n], left[m], right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
    }
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
        const u32 m = i / 4, n = i % 4 / 2 * 2, half = i % 2;
        const u32 at_row = row + 16 * m + 8 * half, at_column = column + 8 * n;
        const float *low = &sums[m][n][2 * half], *high = &sums[m][n + 1][2 * half];
        if (at_row < rows && at_column < columns)
            __stcs((float4 *)&c[(size_t)at_row * columns + at_column], make_float4(low[0], low[1], high[0], high[1]));
    }
}
