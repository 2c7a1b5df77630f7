// Projects rows of 256 features onto 64: y[rows][64] = x[rows][256] · w[256][64], x and y in FP32, w in BF16.
#include "tensor.cuh"

constexpr u32 depth = 256, width = 64;

// A block has 64 rows, a thread 8 rows and 4 columns.
extern "C" __global__ void __launch_bounds__(128, 6)
slow(const float *__restrict__ x, const u32 *__restrict__ w, float *__restrict__ y, u32 rows) {
    constexpr u32 step = 16;
    __shared__ __align__(16) float held_x[2][step][68];
    __shared__ __align__(16) uint4 held_w[2][step][width / 8];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * 64;
    // Neighbours in a warp share their rows, or their columns.
    const u32 column = warp % 2 * 8 + (lane & 1) + (lane >> 1 & 2) + (lane >> 2 & 4);
    const u32 row = warp / 2 * 4 + (lane >> 1 & 1) + (lane >> 2 & 2);
    const u32 copied = threadIdx.x / 2, part = threadIdx.x % 2 * 4;
    const float *from_x = x + (size_t)min(first + copied, rows - 1) * depth + part;
    const uint4 *from_w = (const uint4 *)w + threadIdx.x;

    copy_16(&held_w[0][0][0] + threadIdx.x, from_w);
    close_copies();
    float4 next[2] = {*(const float4 *)from_x, *(const float4 *)(from_x + 8)};
    float sums[8][4] = {};
#pragma unroll 1
    for (u32 k = 0; k < depth; k += step) {
        const u32 half = k / step % 2;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            float *to = &held_x[half][8 * i][copied] + (part != 0 ? 4 * 68 : 0);
            to[0] = next[i].x, to[68] = next[i].y, to[136] = next[i].z, to[204] = next[i].w;
        }
        wait_copies<0>();
        __syncthreads();
        if (k + step < depth) {
            from_x += step;
            from_w += 128;
            next[0] = *(const float4 *)from_x;
            next[1] = *(const float4 *)(from_x + 8);
            copy_16(&held_w[half ^ 1][0][0] + threadIdx.x, from_w);
            close_copies();
        }
#pragma unroll
        for (u32 inner = 0; inner < step; ++inner) {
            const float4 low = *(const float4 *)&held_x[half][inner][8 * row];
            const float4 high = *(const float4 *)&held_x[half][inner][8 * row + 4];
            const uint2 pairs = ((const uint2 *)held_w[half][inner])[column];
            const float a[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            const float b[4] = {
                first_of_bf16(pairs.x), second_of_bf16(pairs.x), first_of_bf16(pairs.y), second_of_bf16(pairs.y)};
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
#pragma unroll
                for (u32 j = 0; j < 4; ++j)
                    sums[i][j] += a[i] * b[j];
        }
    }
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        if (first + 8 * row + i < rows)
            *(float4 *)&y[(size_t)(first + 8 * row + i) * width + 4 * column] =
                make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

// The transposed product: a warp has 16 rows of x as the columns of B, and w as A. Of 16 values of k, the lanes with
// t = lane % 4 hold those from 4·t on: two belong to one product, two to the next. Of 16 columns of w, the even ones
// are the upper half of A.
extern "C" __global__ void __launch_bounds__(256, 2)
fixed(const float *__restrict__ x, const u32 *__restrict__ w, float *__restrict__ y, u32 rows) {
    constexpr u32 ahead = 4, steps = depth / 16;
    __shared__ __align__(16) uint4 held_w[depth][8];  // even and odd columns of 16, at place ^ place_of(k)
    const auto place_of = [](u32 k) { return k & 1 | k >> 1 & 6; };
    for (u32 i = threadIdx.x; i < depth * 4; i += 256) {
        const u32 k = i / 4, pair = i % 4 * 2;
        const uint4 low = ((const uint4 *)w)[2 * i], high = ((const uint4 *)w)[2 * i + 1];
        held_w[k][pair ^ place_of(k)] =
            make_uint4(__byte_perm(low.x, low.y, 0x5410), __byte_perm(low.z, low.w, 0x5410),
                       __byte_perm(high.x, high.y, 0x5410), __byte_perm(high.z, high.w, 0x5410));
        held_w[k][pair + 1 ^ place_of(k)] =
            make_uint4(__byte_perm(low.x, low.y, 0x7632), __byte_perm(low.z, low.w, 0x7632),
                       __byte_perm(high.x, high.y, 0x7632), __byte_perm(high.z, high.w, 0x7632));
    }
    __syncthreads();

    const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 stride = gridDim.x * 128, first = blockIdx.x * 128 + threadIdx.x / 32 * 16;
    const u32 tiles = first < rows ? (rows - first + stride - 1) / stride : 0, end = tiles * steps;
    // The k of 16 whose row of w the lane names: of the first product in matrices 0 and 1, of the second in 2 and 3.
    const u32 named = (lane >> 1 & 3) * 4 + (lane & 1) + (lane >> 4) * 2;
    const uint4 *named_w = &held_w[named][(lane >> 3 & 1) ^ place_of(named)];

    float4 values[ahead][2];
    const auto load = [&](float4 (&to)[2], u32 at) {
        const u32 row = first + at / steps * stride + g;
        const float *from = x + at % steps * 16 + 4 * t;
        to[0] = *(const float4 *)(from + (size_t)min(row, rows - 1) * depth);
        to[1] = *(const float4 *)(from + (size_t)min(row + 8, rows - 1) * depth);
    };
#pragma unroll
    for (u32 i = 0; i + 1 < ahead; ++i)
        load(values[i], min(i, end - 1));
    float sums[4][2][4] = {};
#pragma unroll 1
    for (u32 at = 0; at < end; at += ahead) {
#pragma unroll
        for (u32 i = 0; i < ahead; ++i) {
            load(values[(i + ahead - 1) % ahead], min(at + i + ahead - 1, end - 1));
            const float4 *b = values[i];
#pragma unroll
            for (u32 m = 0; m < 4; ++m) {
                u32 pairs[4];
                const uint4 *from = &named_w[(at + i) % steps * 128];
                load_transposed(pairs, held_w[0] + ((from - held_w[0]) ^ 2 * m));
                const float a[2][4] = {{first_of_bf16(pairs[0]), first_of_bf16(pairs[1]), second_of_bf16(pairs[0]),
                                        second_of_bf16(pairs[1])},
                                       {first_of_bf16(pairs[2]), first_of_bf16(pairs[3]), second_of_bf16(pairs[2]),
                                        second_of_bf16(pairs[3])}};
#pragma unroll
                for (u32 r = 0; r < 2; ++r) {
                    multiply_tf32(sums[m][r], a[0], b[r].x, b[r].y);
                    multiply_tf32(sums[m][r], a[1], b[r].z, b[r].w);
                }
            }
        }
        if ((at + ahead) % steps == 0) {
            const u32 row = first + at / steps * stride + 2 * t;
#pragma unroll
            for (u32 m = 0; m < 4; ++m)
#pragma unroll
                for (u32 r = 0; r < 2; ++r) {
                    float *to = y + (size_t)(row + 8 * r) * width + 16 * m + 2 * g, (&sum)[4] = sums[m][r];
                    if (row + 8 * r < rows)
                        *(float2 *)to = make_float2(sum[0], sum[2]);
                    if (row + 8 * r + 1 < rows)
                        *(float2 *)(to + width) = make_float2(sum[1], sum[3]);
                    sum[0] = sum[1] = sum[2] = sum[3] = 0;
                }
        }
    }
}
