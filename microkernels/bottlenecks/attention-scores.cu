// Scores of attention before the softmax: scores[heads][length][length] = scale · q · kᵀ for each head, q and k
// [heads][length][64] in BF16, scores in FP32. length is a multiple of 4.
#include "tensor.cuh"

constexpr u32 depth = 64, chunks = depth / 8;  // of 16 bytes

// A block has 64 queries and 256 keys, 64 of them at a time; a thread 8 queries and 4 keys of these.
extern "C" __global__ void __launch_bounds__(128, 6)
slow(const uint4 *__restrict__ q, const uint4 *__restrict__ k, float *__restrict__ scores, u32 length, float scale) {
    __shared__ float4 queries[64][2 * chunks];  // at place chunk ^ row % 8
    __shared__ uint4 keys[2][64][chunks];        // at the same place; key 4·i + j lies in row j·16 + i
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, copied = threadIdx.x / 8, chunk = threadIdx.x % 8;
    // Neighbours in a warp share their queries, or their keys.
    const u32 column = warp % 2 * 8 + (lane & 1) + (lane >> 1 & 2) + (lane >> 2 & 4);
    const u32 row = warp / 2 * 4 + (lane >> 1 & 1) + (lane >> 2 & 2);
    const u32 first = blockIdx.x * 64, start = blockIdx.y * 256, end = min(start + 256, length);
    const uint4 *head_q = q + (size_t)blockIdx.z * length * chunks, *head_k = k + (size_t)blockIdx.z * length * chunks;
    const auto copy_keys = [&](u32 key) {
#pragma unroll
        for (u32 i = 0; i < 64; i += 16) {
            const u32 place = (copied + i) % 4 * 16 + (copied + i) / 4;
            copy_16(&keys[key / 64 % 2][place][chunk ^ place % 8],
                    &head_k[(size_t)min(key + copied + i, length - 1) * chunks + chunk]);
        }
        close_copies();
    };
    copy_keys(start);
#pragma unroll
    for (u32 i = copied; i < 64; i += 16) {
        const uint4 pairs = head_q[(size_t)min(first + i, length - 1) * chunks + chunk];
        queries[i][2 * chunk ^ i % 8] = make_float4(
            first_of_bf16(pairs.x), second_of_bf16(pairs.x), first_of_bf16(pairs.y), second_of_bf16(pairs.y));
        queries[i][2 * chunk + 1 ^ i % 8] = make_float4(
            first_of_bf16(pairs.z), second_of_bf16(pairs.z), first_of_bf16(pairs.w), second_of_bf16(pairs.w));
    }
#pragma unroll 1
    for (u32 key = start; key < end; key += 64) {
        wait_copies<0>();
        __syncthreads();
        if (key + 64 < end)
            copy_keys(key + 64);
        float sums[8][4] = {};
#pragma unroll 1
        for (u32 inner = 0; inner < 2 * chunks; ++inner) {
            const float4 *a_rows = &queries[row][inner ^ row % 8];
            const uint2 *b_rows = (const uint2 *)&keys[key / 64 % 2][column][inner / 2 ^ column % 8] + inner % 2;
            float b[4][4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                const uint2 pairs = b_rows[j * 16 * 2 * chunks];
                b[j][0] = first_of_bf16(pairs.x), b[j][1] = second_of_bf16(pairs.x);
                b[j][2] = first_of_bf16(pairs.y), b[j][3] = second_of_bf16(pairs.y);
            }
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                const float4 values = a_rows[i * 8 * 2 * chunks];
                const float a[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
                for (u32 part = 0; part < 4; ++part)
#pragma unroll
                    for (u32 j = 0; j < 4; ++j)
                        sums[i][j] += a[part] * b[j][part];
            }
        }
        if (key + 4 * column < length)
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                const size_t at = ((size_t)blockIdx.z * length + first + row + 8 * i) * length + key + 4 * column;
                if (first + row + 8 * i < length)
                    __stcs((float4 *)&scores[at], make_float4(scale * sums[i][0], scale * sums[i][1],
                                                              scale * sums[i][2], scale * sums[i][3]));
            }
    }
}

// The same; a warp has 16 of 128 queries. Of 16 keys, a lane with t = lane % 4 has those from 4·t on: two in one
// product, two in the next.
extern "C" __global__ void __launch_bounds__(256, 3)
fixed(const uint4 *__restrict__ q, const uint4 *__restrict__ k, float *__restrict__ scores, u32 length, float scale) {
    __shared__ uint4 queries[128][chunks], keys[256][chunks];  // at place chunk ^ row % 8, chunk ^ place_of(key)
    const auto place_of = [](u32 key) { return key & 1 | key >> 1 & 6; };
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, copied = threadIdx.x / 8, chunk = threadIdx.x % 8;
    const u32 first = blockIdx.x * 128, start = blockIdx.y * 256, end = min(start + 256, length);
    const uint4 *head_q = q + (size_t)blockIdx.z * length * chunks, *head_k = k + (size_t)blockIdx.z * length * chunks;
#pragma unroll
    for (u32 i = copied; i < 128; i += 32)
        copy_16(&queries[i][chunk ^ i % 8], &head_q[(size_t)min(first + i, length - 1) * chunks + chunk]);
#pragma unroll
    for (u32 i = copied; i < 256; i += 32)
        copy_16(&keys[i][chunk ^ place_of(i)], &head_k[(size_t)min(start + i, length - 1) * chunks + chunk]);
    close_copies();
    wait_copies<0>();
    __syncthreads();
    u32 a[depth / 16][4];
#pragma unroll
    for (u32 step = 0; step < depth / 16; ++step)
        load_matrices(a[step], &queries[warp * 16 + lane % 16][(2 * step + lane / 16) ^ lane % 8]);
    const u32 named = (lane >> 1 & 3) * 4 + (lane & 1) + (lane >> 4) * 2;
    const u32 row = first + warp * 16 + lane / 4;
    float *to = scores + ((size_t)blockIdx.z * length + row) * length + lane % 4 * 4;
#pragma unroll 2
    for (u32 key = start; key < end; key += 16) {
        float sums[2][4] = {};
#pragma unroll
        for (u32 step = 0; step < depth / 16; ++step) {
            u32 b[4];
            load_matrices(b, &keys[key - start + named][(2 * step + (lane >> 3 & 1)) ^ place_of(named)]);
            multiply_bf16(sums[0], a[step], b[0], b[1]);
            multiply_bf16(sums[1], a[step], b[2], b[3]);
        }
        const bool inside = key + lane % 4 * 4 < length;
        if (inside && row < length)
            __stcs((float4 *)(to + key), make_float4(scale * sums[0][0], scale * sums[0][1], scale * sums[1][0],
                                                     scale * sums[1][1]));
        if (inside && row + 8 < length)
            __stcs((float4 *)(to + key + (size_t)8 * length),
                   make_float4(scale * sums[0][2], scale * sums[0][3], scale * sums[1][2], scale * sums[1][3]));
    }
}
