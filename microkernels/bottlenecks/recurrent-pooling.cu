// Lets a recurrent layer of 64 units run on from given states and sums the states over the steps of each sequence:
// h' = 1 − u², u = clamp(bias − w · h, 0, 1), sums[sequences][64] in FP32 over lengths[block] steps of the 64 sequences
// of a block, at most `steps`. start[sequences][64] and w[64][64] (row: the unit that takes) are FP16, bias[64] FP32.
#include "tensor.cuh"

constexpr u32 units = 64, tiles = units / 16;

// What a warp holds for 16 sequences. Of 16 units, a lane with t = lane % 4 has those from 4·t on: two in one product,
// two in the next.
struct Layer {
    u32 w[tiles][2 * tiles][2], states[tiles][4];
    float bias[tiles][4], sums[tiles][2][4];

    __device__ __forceinline__ void load(const uint2 *start, const uint2 *weights, const float4 *biases, u32 first) {
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
            const float4 values = biases[4 * k + t];
            bias[k][0] = values.x, bias[k][1] = values.y, bias[k][2] = values.z, bias[k][3] = values.w;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sums[k][i / 4][i % 4] = 0;
        }
    }

    __device__ __forceinline__ void advance(float weight) {
        u32 next[tiles][4];
#pragma unroll
        for (u32 n = 0; n < 2 * tiles; ++n) {
            float taken[4] = {};
#pragma unroll
            for (u32 k = 0; k < tiles; ++k) multiply_f16(taken, states[k], w[k][n][0], w[k][n][1]);
            float state[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                const float u = __saturatef(bias[n / 2][n % 2 * 2 + i % 2] - 0.2f * taken[i]);
                state[i] = 1.0f - u * u;
                float &sum = sums[n / 2][i / 2][n % 2 * 2 + i % 2];
                sum = fmaf(weight, state[i], sum);
            }
            next[n / 2][n % 2 * 2] = pack_f16(state[0], state[1]);
            next[n / 2][n % 2 * 2 + 1] = pack_f16(state[2], state[3]);
        }
#pragma unroll
        for (u32 i = 0; i < 4 * tiles; ++i) states[i / 4][i % 4] = next[i / 4][i % 4];
    }

    __device__ __forceinline__ void store(float4 *to, u32 first) const {
        const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (u32 i = 0; i < 2 * tiles; ++i) {
            const float(&values)[4] = sums[i / 2][i % 2];
            to[(size_t)(first + g + i % 2 * 8) * (units / 4) + i / 2 * 4 + t] =
                make_float4(values[0], values[1], values[2], values[3]);
        }
    }
};

extern "C" __global__ void __launch_bounds__(128, 3)
slow(const uint2 *__restrict__ start, const uint2 *__restrict__ w, const float4 *__restrict__ bias,
     const u32 *__restrict__ lengths, float4 *__restrict__ sums, u32 steps) {
    const u32 first = blockIdx.x * 64 + threadIdx.x / 32 * 16, length = lengths[blockIdx.x];
    Layer layer;
    layer.load(start, w, bias, first);
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step)
        layer.advance(step < length ? 1.0f : 0.0f);
    layer.store(sums, first);
}

extern "C" __global__ void __launch_bounds__(128, 3)
fixed(const uint2 *__restrict__ start, const uint2 *__restrict__ w, const float4 *__restrict__ bias,
      const u32 *__restrict__ lengths, float4 *__restrict__ sums, u32 steps) {
    const u32 first = blockIdx.x * 64 + threadIdx.x / 32 * 16, length = min(lengths[blockIdx.x], steps);
    Layer layer;
    layer.load(start, w, bias, first);
#pragma unroll 1
    for (u32 step = 0; step < length; ++step)
        layer.advance(1.0f);
    layer.store(sums, first);
}
