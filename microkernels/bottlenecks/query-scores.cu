// Scores cached keys against the query of each of 22 heads: keys[tokens][22][64], query[22][64] → scores[tokens][22];
// tokens is a multiple of 8.
#include "case.cuh"

constexpr u32 heads = 22, width = 64;

// A block has a token, a warp one of its heads.
extern "C" __global__ void __launch_bounds__(heads * 32)
slow(const float *__restrict__ keys, const float *__restrict__ query, float *__restrict__ scores, u32 tokens) {
    const u32 lane = threadIdx.x % 32, head = threadIdx.x / 32;
    const u32 row = blockIdx.x * heads + head;
    const float2 key = ((const float2 *)keys)[row * (width / 2) + lane];
    const float2 q = ((const float2 *)query)[head * (width / 2) + lane];
    float score = key.x * q.x + key.y * q.y;
#pragma unroll
    for (u32 apart = 16; apart > 0; apart /= 2) score += __shfl_xor_sync(0xffffffff, score, apart);
    if (lane == 0) scores[row] = score;
}

// Half a warp has a head of a token; tokens follow each other.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ keys, const float *__restrict__ query, float *__restrict__ scores, u32 tokens) {
    const u32 lane = threadIdx.x % 16;
    const u32 row = blockIdx.x * 16 + threadIdx.x / 16;
    const float4 key = ((const float4 *)keys)[row * (width / 4) + lane];
    const float4 q = ((const float4 *)query)[row % heads * (width / 4) + lane];
    float score = key.x * q.x + key.y * q.y + key.z * q.z + key.w * q.w;
#pragma unroll
    for (u32 apart = 8; apart > 0; apart /= 2) score += __shfl_xor_sync(0xffffffff, score, apart);
    if (lane == 0) scores[row] = score;
}
