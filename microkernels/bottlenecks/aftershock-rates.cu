// Rate of aftershocks that each quake of a catalogue is expected to have come from those before it: times[count] in
// order, weights[count] → rates[count] = Σ over j < i of weights[j] · (times[i] − times[j] + 1)^−1.5. count is a
// multiple of 512.
#include "case.cuh"

static __device__ __forceinline__ float decayed(float weight, float since) {
    const float root = rsqrtf(since);
    return weight * (root * root * root);
}

// Works out a chunk of quakes; a thread has `own` of them, and of those before every so manyth group of four.
template <u32 lanes, u32 own, u32 parts>
static __device__ __forceinline__ void rates_of(const float *__restrict__ times, const float *__restrict__ weights,
                                                float *__restrict__ rates, u32 first) {
    __shared__ float sums[parts][own * lanes];
    const u32 lane = threadIdx.x % lanes, part = threadIdx.x / lanes;
    float since[own], sum[own];
#pragma unroll
    for (u32 k = 0; k < own; ++k) {
        since[k] = times[first + k * lanes + lane] + 1.0f;
        sum[k] = 0.0f;
    }
    for (u32 group = part; group < first / 4; group += parts) {
        const float4 time = ((const float4 *)times)[group], weight = ((const float4 *)weights)[group];
#pragma unroll
        for (u32 k = 0; k < own; ++k) {
            sum[k] += decayed(weight.x, since[k] - time.x);
            sum[k] += decayed(weight.y, since[k] - time.y);
            sum[k] += decayed(weight.z, since[k] - time.z);
            sum[k] += decayed(weight.w, since[k] - time.w);
        }
    }
#pragma unroll
    for (u32 k = 0; k < own; ++k) {
        for (u32 j = first + part; j < first + k * lanes + lane; j += parts)
            sum[k] += decayed(weights[j], since[k] - times[j]);
        sums[part][k * lanes + lane] = sum[k];
    }
    __syncthreads();
    if (threadIdx.x < own * lanes) {
        float all = 0.0f;
#pragma unroll
        for (u32 k = 0; k < parts; ++k) all += sums[k][threadIdx.x];
        rates[first + threadIdx.x] = all;
    }
    __syncthreads();
}

// A block has 512 quakes that follow each other.
extern "C" __global__ void __launch_bounds__(1024, 1)
slow(const float *__restrict__ times, const float *__restrict__ weights, float *__restrict__ rates, u32 count) {
    rates_of<256, 2, 4>(times, weights, rates, blockIdx.x * 512);
}

// A block has 32 early and 32 late quakes, which together have as many before them as those of any other block.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ times, const float *__restrict__ weights, float *__restrict__ rates, u32 count) {
    rates_of<32, 1, 8>(times, weights, rates, blockIdx.x * 32);
    rates_of<32, 1, 8>(times, weights, rates, count - 32 - blockIdx.x * 32);
}
