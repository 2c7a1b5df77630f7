// Counts the bits in which each code differs from each of 64 prototypes: codes[count][32], prototypes[64][32] →
// distances[count][64]. A warp compares a pair, a block four of them.
#include "case.cuh"

constexpr u32 prototypes_held = 64;

static __device__ __forceinline__ void compare(const u32 *__restrict__ codes, const u32 *__restrict__ prototypes,
                                               u32 *__restrict__ distances, u32 pair) {
    const u32 lane = threadIdx.x % 32;
    const u32 code = codes[pair / prototypes_held * 32 + lane];
    const u32 prototype = prototypes[pair % prototypes_held * 32 + lane];
    const u32 differing = __reduce_add_sync(0xffffffff, (u32)__popc(code ^ prototype));
    if (lane == 0) distances[pair] = differing;
}

extern "C" __global__ void __launch_bounds__(128)
slow(const u32 *__restrict__ codes, const u32 *__restrict__ prototypes, u32 *__restrict__ distances, u32 count) {
    const u32 pair = blockIdx.x * 4 + threadIdx.x / 32;
    if (pair < count * prototypes_held) compare(codes, prototypes, distances, pair);
}

// There are as many blocks as fit at once, and each goes on with every so manyth four pairs.
extern "C" __global__ void __launch_bounds__(128)
fixed(const u32 *__restrict__ codes, const u32 *__restrict__ prototypes, u32 *__restrict__ distances, u32 count) {
#pragma unroll 1
    for (u32 pair = blockIdx.x * 4 + threadIdx.x / 32; pair < count * prototypes_held; pair += gridDim.x * 4)
        compare(codes, prototypes, distances, pair);
}
