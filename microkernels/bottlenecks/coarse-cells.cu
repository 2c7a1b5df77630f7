// Restricts a fine grid to its coarse cells, a product with a sparse matrix: offsets[cells + 1], fine[entries] and
// weight[entries] → coarse[cells] = Σ weight · value[fine], value[entries]. coarse starts at zero.
#include "case.cuh"

static __device__ __forceinline__ float over_warp(float sum) {
#pragma unroll
    for (u32 apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
    return sum;
}

// Adds up entries from `first` to `end`, a warp all of them and a lane two at a time.
static __device__ __forceinline__ float sum_of(const u32 *__restrict__ fine, const float *__restrict__ weight,
                                               const float *__restrict__ value, u32 first, u32 end) {
    float sum = 0.0f;
    for (u32 i = first + threadIdx.x % 32; i < end; i += 64) {
        const u32 j = i + 32 < end ? i + 32 : i;
        const u32 one = fine[i], other = fine[j];
        const float factor = weight[i], next = j > i ? weight[j] : 0.0f;
        sum += factor * value[one] + next * value[other];
    }
    return over_warp(sum);
}

// A warp has a cell.
extern "C" __global__ void __launch_bounds__(256)
slow(const u32 *__restrict__ offsets, const u32 *__restrict__ fine, const float *__restrict__ weight,
     const float *__restrict__ value, float *__restrict__ coarse, u32 cells) {
    const u32 cell = blockIdx.x * 8 + threadIdx.x / 32;
    if (cell >= cells) return;
    const float sum = sum_of(fine, weight, value, offsets[cell], offsets[cell + 1]);
    if (threadIdx.x % 32 == 0) coarse[cell] = sum;
}

constexpr u32 share = 1024;

// A warp has 1024 entries; cells that it has only a part of are added up in memory.
extern "C" __global__ void __launch_bounds__(256)
fixed(const u32 *__restrict__ offsets, const u32 *__restrict__ fine, const float *__restrict__ weight,
      const float *__restrict__ value, float *__restrict__ coarse, u32 cells) {
    const u32 entries = offsets[cells];
    u32 next = (blockIdx.x * 8 + threadIdx.x / 32) * share;
    if (next >= entries) return;
    const u32 last = min(next + share, entries);
    u32 cell = 0, above = cells;
    while (above - cell > 1) {
        const u32 middle = (cell + above) / 2;
        if (offsets[middle] <= next) cell = middle;
        else above = middle;
    }
    u32 start = offsets[cell];
    while (next < last) {
        const u32 end = offsets[cell + 1], stop = min(end, last);
        const float sum = sum_of(fine, weight, value, next, stop);
        if (threadIdx.x % 32 == 0) {
            if (next == start && stop == end) coarse[cell] = sum;
            else atomicAdd(&coarse[cell], sum);
        }
        ++cell;
        next = start = end;
    }
}
