// Counts in each tile of 16384 keys how often each 4-bit digit stands at one position: keys[tiles][16384] →
// counts[tiles][16].
#include "case.cuh"

constexpr u32 threads = 256, digits = 16, rounds = 16;

extern "C" __global__ void __launch_bounds__(threads)
slow(const uint4 *__restrict__ keys, u32 *__restrict__ counts, u32 shift)
{
    __shared__ u32 warps[threads / 32][digits];
    u32 seen[digits];
#pragma unroll
    for (u32 digit = 0; digit < digits; ++digit)
        seen[digit] = 0;
    const uint4 *tile = keys + (size_t)blockIdx.x * threads * rounds + threadIdx.x;
#pragma unroll 4
    for (u32 round = 0; round < rounds; ++round) {
        const uint4 four = tile[round * threads];
        const u32 key[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (u32 part = 0; part < 4; ++part)
            seen[(key[part] >> shift) & (digits - 1)] += 1;
    }
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (u32 digit = 0; digit < digits; ++digit) {
        const u32 sum = __reduce_add_sync(~0u, seen[digit]);
        if (lane == 0)
            warps[warp][digit] = sum;
    }
    __syncthreads();
    if (threadIdx.x < digits) {
        u32 sum = 0;
#pragma unroll
        for (u32 other = 0; other < threads / 32; ++other)
            sum += warps[other][threadIdx.x];
        counts[blockIdx.x * digits + threadIdx.x] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(threads)
fixed(const uint4 *__restrict__ keys, u32 *__restrict__ counts, u32 shift)
{
    __shared__ u32 seen[digits][threads]; // a thread's counters are in its own bank
#pragma unroll
    for (u32 digit = 0; digit < digits; ++digit)
        seen[digit][threadIdx.x] = 0;
    const uint4 *tile = keys + (size_t)blockIdx.x * threads * rounds + threadIdx.x;
#pragma unroll 4
    for (u32 round = 0; round < rounds; ++round) {
        const uint4 four = tile[round * threads];
        const u32 key[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (u32 part = 0; part < 4; ++part)
            seen[(key[part] >> shift) & (digits - 1)][threadIdx.x] += 1;
    }
    __syncthreads();
    const u32 digit = threadIdx.x / 16, part = threadIdx.x % 16;
    u32 sum = 0;
#pragma unroll
    for (u32 step = 0; step < threads / 16; ++step)
        sum += seen[digit][(part + 16 * (step + digit)) % threads]; // the two digits of a warp read different banks
#pragma unroll
    for (u32 apart = 8; apart > 0; apart /= 2)
        sum += __shfl_down_sync(~0u, sum, apart, 16);
    if (part == 0)
        counts[blockIdx.x * digits + digit] = sum;
}
