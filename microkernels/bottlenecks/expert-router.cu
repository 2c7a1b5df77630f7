// Routes tokens to experts: logits[tokens][32] = x[tokens][256] · w[32][256]ᵀ, x and w in FP16, logits in FP32.
#include "tensor.cuh"

constexpr u32 depth = 256, experts = 32, chunks = 8;  // a chunk is 16 bytes, a row of a tile 8 chunks

static __device__ __forceinline__ u32 place_of(u32 expert) { return expert & 1 | expert >> 1 & 6; }

// Adds the product of 16 rows of a tile of x, at place chunk ^ row % 8, and of w, at place chunk ^ place_of(row). Of 16
// experts, a lane with t = lane % 4 has those from 4·t on: two in one product, two in the next.
static __device__ __forceinline__ void multiply_rows(
    float (&sums)[4][4], const uint4 (*x)[chunks], const uint4 *w, u32 w_row) {
    const u32 lane = threadIdx.x % 32, named = (lane >> 1 & 3) * 4 + (lane & 1) + (lane >> 4) * 2;
#pragma unroll
    for (u32 step = 0; step < chunks / 2; ++step) {
        u32 a[4], b[4];
        load_matrices(a, &x[lane % 16][(2 * step + lane / 16) ^ lane % 8]);
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            load_matrices(b, &w[(16 * half + named) * w_row + ((2 * step + (lane >> 3 & 1)) ^ place_of(named))]);
            multiply_f16(sums[2 * half], a, b[0], b[1]);
            multiply_f16(sums[2 * half + 1], a, b[2], b[3]);
        }
    }
}

static __device__ __forceinline__ void store_rows(
    const float (&sums)[4][4], float4 *__restrict__ logits, u32 first, u32 tokens) {
    const u32 row = first + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const float *low = &sums[i / 2 * 2][i % 2 * 2], *high = &sums[i / 2 * 2 + 1][i % 2 * 2];
        if (row + i % 2 * 8 < tokens)
            logits[(size_t)(row + i % 2 * 8) * (experts / 4) + i / 2 * 4 + t] =
                make_float4(low[0], low[1], high[0], high[1]);
    }
}

// A block has 256 tokens, a warp 16 of them.
extern "C" __global__ void __launch_bounds__(512, 2)
slow(const uint4 *__restrict__ x, const uint4 *__restrict__ w, float4 *__restrict__ logits, u32 tokens) {
    __shared__ uint4 held_x[256][chunks], held_w[experts][chunks];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * 256;
    const u32 copied = lane / 8, chunk = lane % 8;
    float sums[4][4] = {};
#pragma unroll 1
    for (u32 part = 0; part < depth / 8; part += chunks) {
        if (warp == 0) {
#pragma unroll 4
            for (u32 row = copied; row < 256; row += 4)
                held_x[row][chunk ^ row % 8] = x[(size_t)min(first + row, tokens - 1) * (depth / 8) + part + chunk];
#pragma unroll 4
            for (u32 row = copied; row < experts; row += 4)
                held_w[row][chunk ^ place_of(row)] = w[row * (depth / 8) + part + chunk];
        }
        __syncthreads();  // the tiles are complete
        multiply_rows(sums, &held_x[16 * warp], held_w[0], chunks);
        __syncthreads();  // they may be overwritten
    }
    store_rows(sums, logits, first + 16 * warp, tokens);
}

// The same; w stays in shared memory, and a warp copies its own 32 tokens, a part of them while it multiplies another.
extern "C" __global__ void __launch_bounds__(128, 4)
fixed(const uint4 *__restrict__ x, const uint4 *__restrict__ w, float4 *__restrict__ logits, u32 tokens) {
    constexpr u32 parts = depth / 8 / chunks;
    __shared__ uint4 held_w[experts][depth / 8], held_x[4][2][32][chunks];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, copied = lane / 8, chunk = lane % 8;
    for (u32 i = threadIdx.x; i < experts * depth / 8; i += 128)
        held_w[i / (depth / 8)][i % (depth / 8) ^ place_of(i / (depth / 8))] = w[i];
    __syncthreads();

    const u32 stride = gridDim.x * 128, start = blockIdx.x * 128 + warp * 32;
    const u32 tiles = start < tokens ? (tokens - start + stride - 1) / stride : 0, end = tiles * parts;
    const auto copy = [&](u32 at) {
        const u32 first = start + at / parts * stride;
#pragma unroll
        for (u32 row = copied; row < 32; row += 4)
            copy_16(&held_x[warp][at % 2][row][chunk ^ row % 8],
                    &x[(size_t)min(first + row, tokens - 1) * (depth / 8) + at % parts * chunks + chunk]);
        close_copies();
    };
    if (end > 0)
        copy(0);
    float sums[2][4][4] = {};
#pragma unroll 1
    for (u32 at = 0; at < end; ++at) {
        __syncwarp();
        if (at + 1 < end)
            copy(at + 1);
        else
            close_copies();
        wait_copies<1>();
        __syncwarp();
#pragma unroll
        for (u32 half = 0; half < 2; ++half)
            multiply_rows(sums[half], &held_x[warp][at % 2][16 * half], &held_w[0][at % parts * chunks], depth / 8);
        if (at % parts == parts - 1) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                store_rows(sums[half], logits, start + at / parts * stride + 16 * half, tokens);
#pragma unroll
                for (u32 i = 0; i < 16; ++i)
                    sums[half][i / 4][i % 4] = 0;
            }
        }
    }
}
