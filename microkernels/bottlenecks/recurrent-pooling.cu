// Lets a recurrent layer of 64 units run on from given states and sums the states over the steps of each sequence:
// h' = clamp(bias + w · h, 0, 1), sums[sequences][64] in FP32 over lengths[block] steps of the 64 sequences of a block,
// at most `steps`. start[sequences][64], w[64][64] (row: the unit that takes) and bias[64] are FP16.
#include "tensor.cuh"

constexpr u32 units = 64, tiles = units / 16;

// What a warp holds for 16 sequences. Of 16 units, a lane with t = lane % 4 has those from 4·t on: two in one product,
// two in the next.
struct Layer {
    u32 w[tiles][2 * tiles][2], states[tiles][4], bias[2 * tiles];
    float sums[2 * tiles][4];

    __device__ __forceinline__ void load(const uint2 *start, const uint2 *weights, const uint2 *biases, u32 first) {
        const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (u32 k = 0; k < tiles; ++k) {
#pragma unroll
            for (u32 n = 0; n < 2 * tiles; ++n) {
                const u32 unit = n / 2 * 16 + g / 2 * 4 + g % 2 + n % 2 * 2;
                const uint2 pairs = weights[unit * (units / 4) + 4 * k + t];
                w[k][n][0] = pairs.x, w[k][n][1] = pairs.y;
            }
            const uint2 top = start[(size_t)(first + g) * (units / 4) + 4 * k + t];
            const uint2 bottom = start[(size_t)(first + g + 8) * (units / 4) + 4 * k + t];
            states[k][0] = top.x, states[k][1] = bottom.x, states[k][2] = top.y, states[k][3] = bottom.y;
            const uint2 values = biases[4 * k + t];
            bias[2 * k] = values.x, bias[2 * k + 1] = values.y;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sums[2 * k + i / 4][i % 4] = 0;
        }
    }

    // Adds the new states with a weight: a product with `diagonal`, what a lane has of that weight times the 8 × 8
    // matrix of ones on the diagonal.
    __device__ __forceinline__ void advance(u32 diagonal) {
        u32 next[2 * tiles][2];
#pragma unroll
        for (u32 n = 0; n < 2 * tiles; ++n) next[n][0] = next[n][1] = bias[n];
#pragma unroll
        for (u32 k = 0; k < tiles; ++k)
#pragma unroll
            for (u32 n = 0; n < 2 * tiles; ++n) multiply_in_f16(next[n], states[k], w[k][n][0], w[k][n][1]);
#pragma unroll
        for (u32 i = 0; i < 4 * tiles; ++i) states[i / 4][i % 4] = saturate_f16(next[i / 2][i % 2]);
#pragma unroll
        for (u32 n = 0; n < 2 * tiles; ++n)
            multiply_f16(sums[n], states[n / 2], n % 2 == 0 ? diagonal : 0, n % 2 == 0 ? 0 : diagonal);
    }

    __device__ __forceinline__ void store(float4 *to, u32 first) const {
        const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (u32 i = 0; i < 2 * tiles; ++i) {
            const float(&left)[4] = sums[i / 2 * 2], (&right)[4] = sums[i / 2 * 2 + 1];
            const u32 low = i % 2 * 2;
            to[(size_t)(first + g + i % 2 * 8) * (units / 4) + i / 2 * 4 + t] =
                make_float4(left[low], left[low + 1], right[low], right[low + 1]);
        }
    }
};

// Row k = 2·t + i of column g is one where k = g.
__device__ __forceinline__ u32 ones() {
    const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    return t == g / 2 ? 0x3c00u << g % 2 * 16 : 0;
}

extern "C" __global__ void __launch_bounds__(128, 3)
slow(const uint2 *__restrict__ start, const uint2 *__restrict__ w, const uint2 *__restrict__ bias,
     const u32 *__restrict__ lengths, float4 *__restrict__ sums, u32 steps) {
    const u32 first = blockIdx.x * 64 + threadIdx.x / 32 * 16, length = lengths[blockIdx.x], one = ones();
    Layer layer;
    layer.load(start, w, bias, first);
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step)
        layer.advance(step < length ? one : 0);
    layer.store(sums, first);
}

extern "C" __global__ void __launch_bounds__(128, 3)
fixed(const uint2 *__restrict__ start, const uint2 *__restrict__ w, const uint2 *__restrict__ bias,
      const u32 *__restrict__ lengths, float4 *__restrict__ sums, u32 steps) {
    const u32 first = blockIdx.x * 64 + threadIdx.x / 32 * 16, length = min(lengths[blockIdx.x], steps), one = ones();
    Layer layer;
    layer.load(start, w, bias, first);
#pragma unroll 1
    for (u32 step = 0; step < length; ++step)
        layer.advance(one);
    layer.store(sums, first);
}
