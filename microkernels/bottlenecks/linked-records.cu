// Follows fourteen links from the start of each query and weighs the record that it comes to: next[nodes],
// records[nodes][128], weights[128], start[queries], out[queries]; a warp has eight queries, a block 64.
#include "case.cuh"

#define HOPS 14

static __device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

#define DOT(a, b) fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, a.w * b.w)))

extern "C" __global__ void __launch_bounds__(256)
slow(const u32 *__restrict__ next, const float4 *__restrict__ records, const float4 *__restrict__ weights,
     const u32 *__restrict__ start, float *__restrict__ out) {
    const u32 lane = threadIdx.x % 32, first = (blockIdx.x * 8 + threadIdx.x / 32) * 8;
    const float4 weight = weights[lane];
    float mine = 0;
#pragma unroll 1
    for (u32 i = 0; i < 8; i++) {
        u32 node = start[first + i];
#pragma unroll
        for (u32 hop = 0; hop < HOPS; hop++) node = next[node];
        const float4 record = records[node * 32 + lane];
        const float product = DOT(record, weight);
        const float sum = warp_sum(product);
        if (lane == i) mine = sum;
    }
    if (lane < 8) out[first + lane] = mine;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const u32 *__restrict__ next, const float4 *__restrict__ records, const float4 *__restrict__ weights,
      const u32 *__restrict__ start, float *__restrict__ out) {
    const u32 lane = threadIdx.x % 32, first = (blockIdx.x * 8 + threadIdx.x / 32) * 8;
    const float4 weight = weights[lane];
    float mine = 0;
#pragma unroll 1
    for (u32 i = 0; i < 8; i += 4) {
        const uint4 starts = *(const uint4 *)(start + first + i);
        u32 nodes[4] = {starts.x, starts.y, starts.z, starts.w};
#pragma unroll
        for (u32 hop = 0; hop < HOPS; hop++)
#pragma unroll
            for (u32 k = 0; k < 4; k++)
                nodes[k] = next[nodes[k]];
        float4 found[4];
#pragma unroll
        for (u32 k = 0; k < 4; k++)
            found[k] = records[nodes[k] * 32 + lane];
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            const float sum = warp_sum(DOT(found[k], weight));
            if (lane == i + k) mine = sum;
        }
    }
    if (lane < 8) out[first + lane] = mine;
}
