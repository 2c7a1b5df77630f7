// Counts the bits in which the codes of each pair differ: left[pairs][32], right[pairs][32] → distances[pairs]. A warp
// compares a pair, and goes on with every so manyth.
#include "case.cuh"

static __device__ __forceinline__ void compare(const u32 *__restrict__ left, const u32 *__restrict__ right,
                                               u32 *__restrict__ distances, u32 pairs, u32 first, u32 warps) {
    const u32 lane = threadIdx.x % 32;
    for (u32 pair = first; pair < pairs; pair += warps) {
        const u32 i = pair * 32 + lane;
        const u32 differing = __reduce_add_sync(0xffffffff, (u32)__popc(left[i] ^ right[i]));
        if (lane == 0) distances[pair] = differing;
    }
}

extern "C" __global__ void __launch_bounds__(32)
slow(const u32 *__restrict__ left, const u32 *__restrict__ right, u32 *__restrict__ distances, u32 pairs) {
    compare(left, right, distances, pairs, blockIdx.x, gridDim.x);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const u32 *__restrict__ left, const u32 *__restrict__ right, u32 *__restrict__ distances, u32 pairs) {
    compare(left, right, distances, pairs, blockIdx.x * 8 + threadIdx.x / 32, gridDim.x * 8);
}
