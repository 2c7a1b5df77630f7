// Scores cached keys against the query of each of 22 heads: keys[tokens][22][32], query[22][32] → scores[tokens][22];
// tokens is a multiple of 4.
#include "case.cuh"

constexpr u32 heads = 22, width = 32;

static __device__ __forceinline__ void score_row(const float *__restrict__ keys, const float *__restrict__ query,
                                                 float *__restrict__ scores, u32 row, u32 head) {
    const u32 lane = threadIdx.x % 32;
    float score = keys[row * width + lane] * query[head * width + lane];
#pragma unroll
    for (u32 apart = 16; apart > 0; apart /= 2) score += __shfl_xor_sync(0xffffffff, score, apart);
    if (lane == 0) scores[row] = score;
}

// A block has a token, a warp one of its heads.
extern "C" __global__ void __launch_bounds__(heads * 32)
slow(const float *__restrict__ keys, const float *__restrict__ query, float *__restrict__ scores, u32 tokens) {
    const u32 head = threadIdx.x / 32;
    score_row(keys, query, scores, blockIdx.x * heads + head, head);
}

// A warp has a head of a token; tokens follow each other.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ keys, const float *__restrict__ query, float *__restrict__ scores, u32 tokens) {
    const u32 row = blockIdx.x * 8 + threadIdx.x / 32;
    score_row(keys, query, scores, row, row % heads);
}
