// Counts how often the codes of a pair differ in so many bits: left[pairs][32], right[pairs][32] → counts[1025], which
// starts at zero. A warp compares a pair, and goes on with every so manyth; blocks count by themselves first.
#include "case.cuh"

constexpr u32 bins = 1025, held = 2048, warps = 8;

static __device__ __forceinline__ void count_pairs(
    const u32 *__restrict__ left, const u32 *__restrict__ right, u32 *own, u32 pairs) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll 1
    for (u32 pair = blockIdx.x * warps + threadIdx.x / 32; pair < pairs; pair += gridDim.x * warps) {
        const u32 i = pair * 32 + lane;
        const u32 differing = __reduce_add_sync(0xffffffff, (u32)__popc(left[i] ^ right[i]));
        if (lane == 0) atomicAdd(&own[differing], 1u);
    }
}

// Each warp has counts of its own.
extern "C" __global__ void __launch_bounds__(warps * 32)
slow(const u32 *__restrict__ left, const u32 *__restrict__ right, u32 *__restrict__ counts, u32 pairs) {
    extern __shared__ u32 own[];
    for (u32 i = threadIdx.x; i < warps * held; i += warps * 32) own[i] = 0;
    __syncthreads();
    count_pairs(left, right, own + threadIdx.x / 32 * held, pairs);
    __syncthreads();
    for (u32 bin = threadIdx.x; bin < bins; bin += warps * 32) {
        u32 sum = 0;
        for (u32 warp = 0; warp < warps; ++warp) sum += own[warp * held + bin];
        if (sum != 0) atomicAdd(&counts[bin], sum);
    }
}

extern "C" __global__ void __launch_bounds__(warps * 32)
fixed(const u32 *__restrict__ left, const u32 *__restrict__ right, u32 *__restrict__ counts, u32 pairs) {
    extern __shared__ u32 own[];
    for (u32 i = threadIdx.x; i < held; i += warps * 32) own[i] = 0;
    __syncthreads();
    count_pairs(left, right, own, pairs);
    __syncthreads();
    for (u32 bin = threadIdx.x; bin < bins; bin += warps * 32)
        if (own[bin] != 0) atomicAdd(&counts[bin], own[bin]);
}
