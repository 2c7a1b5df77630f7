// Looks up embeddings and scales them: table[words][columns], tokens[count] of words, out[count][columns];
// count and columns are multiples of 64.
#include "case.cuh"

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ table, const u32 *__restrict__ tokens, float *__restrict__ out, u32 count, u32 columns,
     float scale) {
    const u32 token = blockIdx.x * 256 + threadIdx.x;
    if (token >= count) return;
    const float *const from = table + (u64)tokens[token] * columns;
    float *const to = out + (u64)token * columns;
    for (u32 c = 0; c < columns; ++c)
        to[c] = from[c] * scale;
}

// Sixteen lanes take 64 columns of a row. A warp has eight rows, two at a time.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ table, const u32 *__restrict__ tokens, float *__restrict__ out, u32 count, u32 columns,
      float scale) {
    const u32 lane = threadIdx.x % 32;
    const u32 first = (blockIdx.x * 8 + threadIdx.x / 32) * 8 + lane / 16;
    const u32 across = lane % 16 * 4;
    const float *from[4];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) from[k] = table + (u64)tokens[first + 2 * k] * columns + across;
#pragma unroll 1
    for (u32 c = 0; c < columns; c += 64) {
        float4 part[4];
#pragma unroll
        for (u32 k = 0; k < 4; ++k) part[k] = *(const float4 *)(from[k] + c);
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            const float4 v = make_float4(part[k].x * scale, part[k].y * scale, part[k].z * scale, part[k].w * scale);
            *(float4 *)(out + (u64)(first + 2 * k) * columns + (across + c)) = v;
        }
    }
}
