// Looks values up softly, as attention does with one feature: out[rows] = Σ softmax(scores[rows][keys]) · values[keys],
// scores in units of log 2, as BF16. keys is a multiple of 1024.
#include "case.cuh"

static __device__ __forceinline__ float wide(u32 bits) {
    return __uint_as_float(bits << 16);
}

// A block has a row and takes 1024 keys at a time. The largest score so far, and the sums of weights and of weighted
// values that go with it, are kept by the first warp.
extern "C" __global__ void __launch_bounds__(1024, 2)
slow(const u16 *__restrict__ scores, const float *__restrict__ values, float *__restrict__ out, u32 keys) {
    __shared__ float held[1024], weights[1024], weighted[1024];
    __shared__ float largest;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u16 *mine = scores + (size_t)blockIdx.x * keys + threadIdx.x;
    u32 next = *mine;
    float most = -__int_as_float(0x7f800000), total = 0, sum = 0;
#pragma unroll 1
    for (u32 key = threadIdx.x; key < keys; key += 1024) {
        const float score = wide(next), value = values[key];
        mine += 1024;
        if (key + 1024 < keys)
            next = *mine;
        held[threadIdx.x] = score;
        __syncthreads();  // the scores are there
        if (warp == 0) {
            float top = most;
#pragma unroll
            for (u32 i = 0; i < 32; ++i) top = fmaxf(top, held[lane + 32 * i]);
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
        weights[threadIdx.x] = weight;
        weighted[threadIdx.x] = weight * value;
        __syncthreads();  // the weights are there
        if (warp == 0)
#pragma unroll
            for (u32 i = 0; i < 32; ++i) {
                total += weights[lane + 32 * i];
                sum += weighted[lane + 32 * i];
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
fixed(const u16 *__restrict__ scores, const float *__restrict__ values, float *__restrict__ out, u32 keys) {
    const u32 lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
    const uint2 *mine = (const uint2 *)(scores + (size_t)row * keys) + lane;
    const float4 *theirs = (const float4 *)values + lane;
    float most = -__int_as_float(0x7f800000), total = 0, sum = 0;
#pragma unroll 1
    for (u32 four = 0; four < keys / 4; four += 128) {
        float4 some[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const uint2 now = __ldcs(&mine[four + 32 * i]);
            some[i] = make_float4(wide(now.x & 0xffff), wide(now.x >> 16), wide(now.y & 0xffff), wide(now.y >> 16));
        }
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
