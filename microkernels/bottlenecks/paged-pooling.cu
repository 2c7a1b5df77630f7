// Attention of one query over each sequence's own rows, which serve as keys and values: rows lie in pages of page_rows
// rows of 32 elements, pages[sequences][sequence_pages] says which; keys[sequences * sequence_pages][page_rows][32],
// queries[sequences][32], out[sequences][32]; a warp has one sequence, page_rows and sequences are multiples of 8.
#include "case.cuh"

static __device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ keys, const u32 *__restrict__ pages, const float *__restrict__ queries,
     float *__restrict__ out, u32 sequence_pages, u32 page_rows) {
    const u32 lane = threadIdx.x % 32, sequence = blockIdx.x * 8 + threadIdx.x / 32;
    const float query = queries[sequence * 32 + lane];
    float peak = -3.0e38f, sum = 0, mean = 0;
    for (u32 i = 0; i < sequence_pages; i++) {
        const u32 page = pages[sequence * sequence_pages + i];
        const float *rows = keys + (u64)page * page_rows * 32 + lane;
#pragma unroll 1
        for (u32 row = 0; row < page_rows; row++) {
            const float key = rows[row * 32];
            const float product = key * query;
            const float score = warp_sum(product), higher = fmaxf(peak, score);
            const float kept = __expf(peak - higher), weight = __expf(score - higher);
            sum = fmaf(sum, kept, weight);
            mean = fmaf(mean, kept, weight * key);
            peak = higher;
        }
    }
    out[sequence * 32 + lane] = __fdividef(mean, sum);
}

#define DOT(a, b) fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, a.w * b.w)))

// Over the eight lanes that share a row.
static __device__ __forceinline__ float row_sum(float v) {
#pragma unroll
    for (int d = 4; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

static __device__ __forceinline__ float added(float mean, float kept, float a, float v, float b, float w) {
    return fmaf(mean, kept, fmaf(a, v, b * w));
}

// Lane l has elements 4 * (l % 8) and on of every fourth row, from row l / 8.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ keys, const u32 *__restrict__ pages, const float *__restrict__ queries,
      float *__restrict__ out, u32 sequence_pages, u32 page_rows) {
    const u32 lane = threadIdx.x % 32, sequence = blockIdx.x * 8 + threadIdx.x / 32;
    const float4 query = ((const float4 *)queries)[sequence * 8 + lane % 8];
    float peak = -3.0e38f, sum = 0;
    float4 mean = make_float4(0, 0, 0, 0);
    for (u32 i = 0; i < sequence_pages; i++) {
        const u32 page = pages[sequence * sequence_pages + i];
        const float4 *rows = (const float4 *)keys + (u64)page * page_rows * 8 + lane;
#pragma unroll 1
        for (u32 row = 0; row < page_rows; row += 8) {
            const float4 v = rows[row * 8], w = rows[row * 8 + 32];
            const float first = row_sum(DOT(v, query)), second = row_sum(DOT(w, query));
            const float higher = fmaxf(peak, fmaxf(first, second));
            const float kept = __expf(peak - higher), a = __expf(first - higher), b = __expf(second - higher);
            sum = fmaf(sum, kept, a + b);
            mean.x = added(mean.x, kept, a, v.x, b, w.x);
            mean.y = added(mean.y, kept, a, v.y, b, w.y);
            mean.z = added(mean.z, kept, a, v.z, b, w.z);
            mean.w = added(mean.w, kept, a, v.w, b, w.w);
            peak = higher;
        }
    }
#pragma unroll
    for (int d = 8; d < 32; d *= 2) {
        const float higher = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, d)), kept = __expf(peak - higher);
        sum *= kept;
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
        mean = make_float4(mean.x * kept, mean.y * kept, mean.z * kept, mean.w * kept);
        mean.x += __shfl_xor_sync(0xffffffffu, mean.x, d);
        mean.y += __shfl_xor_sync(0xffffffffu, mean.y, d);
        mean.z += __shfl_xor_sync(0xffffffffu, mean.z, d);
        mean.w += __shfl_xor_sync(0xffffffffu, mean.w, d);
        peak = higher;
    }
    if (lane >= 8) return;
    const float scale = __fdividef(1.0f, sum);
    ((float4 *)out)[sequence * 8 + lane] = make_float4(mean.x * scale, mean.y * scale, mean.z * scale, mean.w * scale);
}
