// Looks values up softly, as attention does with one feature: out[rows] = Σ softmax(scores[rows][keys]) · values[keys],
// scores in units of log 2. keys is a multiple of 1024.
#include "case.cuh"

// A block has a row and takes 1024 keys at a time. The largest score so far, and the sums of weights and of weighted
// values that go with it, are kept by the first warp.
extern "C" __global__ void __launch_bounds__(1024, 2)
slow(const float *__restrict__ scores, const float *__restrict__ values, float *__restrict__ out, u32 keys) {
    __shared__ float4 held[256], weights[256], weighted[256];
    __shared__ float largest;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *mine = scores + (size_t)blockIdx.x * keys + threadIdx.x;
    float next = *mine, most = -__int_as_float(0x7f800000), total = 0, sum = 0;
#pragma unroll 1
    for (u32 key = threadIdx.x; key < keys; key += 1024) {
        const float score = next, value = values[key];
        mine += 1024;
        if (key + 1024 < keys)
            next = *mine;
        ((float *)held)[threadIdx.x] = score;
        __syncthreads();  // the scores are there
        if (warp == 0) {
            float top = most;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                const float4 four = held[lane + 32 * i];
                top = fmaxf(fmaxf(top, fmaxf(four.x, four.y)), fmaxf(four.z, four.w));
            }
#pragma unroll
            for (u32 other = 16; other > 0; other /= 2)
                top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, other));
            const float shrink = exp2f(most - top);
            total *= shrink, sum *= shrink, most = top;
            if (lane == 0)
                largest = top;
        }
        __syncthreads();  // the largest is there
        const float weight = exp2f(score - largest);
        ((float *)weights)[threadIdx.x] = weight;
        ((float *)weighted)[threadIdx.x] = weight * value;
        __syncthreads();  // the weights are there
        if (warp == 0)
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                const float4 some = weights[lane + 32 * i], others = weighted[lane + 32 * i];
                total += (some.x + some.y) + (some.z + some.w);
                sum += (others.x + others.y) + (others.z + others.w);
            }
    }
    if (warp == 0) {
#pragma unroll
        for (u32 other = 16; other > 0; other /= 2) {
            total += __shfl_xor_sync(0xffffffff, total, other);
            sum += __shfl_xor_sync(0xffffffff, sum, other);
        }
        if (lane == 0)
            out[blockIdx.x] = sum / total;
    }
}

// A warp has a row, a lane 16 keys at a time, with a largest score and sums of its own.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ scores, const float *__restrict__ values, float *__restrict__ out, u32 keys) {
    const u32 lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
    const float4 *mine = (const float4 *)(scores + (size_t)row * keys) + lane, *theirs = (const float4 *)values + lane;
    float most = -__int_as_float(0x7f800000), total = 0, sum = 0;
#pragma unroll 1
    for (u32 four = 0; four < keys / 4; four += 128) {
        float4 some[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) some[i] = __ldcs(&mine[four + 32 * i]);
        float top = most;
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            top = fmaxf(fmaxf(top, fmaxf(some[i].x, some[i].y)), fmaxf(some[i].z, some[i].w));
        const float shrink = exp2f(most - top);
        total *= shrink, sum *= shrink, most = top;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const float4 value = theirs[four + 32 * i];
            const float a = exp2f(some[i].x - top), b = exp2f(some[i].y - top);
            const float c = exp2f(some[i].z - top), d = exp2f(some[i].w - top);
            total += (a + b) + (c + d);
            sum = fmaf(a, value.x, fmaf(b, value.y, fmaf(c, value.z, fmaf(d, value.w, sum))));
        }
    }
    float top = most;
#pragma unroll
    for (u32 other = 16; other > 0; other /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, other));
    const float shrink = exp2f(most - top);
    total *= shrink, sum *= shrink;
#pragma unroll
    for (u32 other = 16; other > 0; other /= 2) {
        total += __shfl_xor_sync(0xffffffff, total, other);
        sum += __shfl_xor_sync(0xffffffff, sum, other);
    }
    if (lane == 0)
        out[row] = sum / total;
}
