// Smallest Hamming distance of each 256-bit descriptor to a set: queries[8][count], others[set][8] →
// nearest[count].
#include "case.cuh"

constexpr u32 most = 256;

extern "C" __global__ void __launch_bounds__(256)
slow(const u32 *__restrict__ queries, const uint4 *__restrict__ others, u32 *__restrict__ nearest, u32 count, u32 set)
{
    __shared__ uint4 held[2 * most];
    for (u32 index = threadIdx.x; index < 2 * set; index += 256)
        held[index] = others[index];
    __syncthreads();
    const u32 query = blockIdx.x * 256 + threadIdx.x;
    if (query >= count)
        return;
    u32 mine[8];
#pragma unroll
    for (u32 word = 0; word < 8; ++word)
        mine[word] = queries[(size_t)word * count + query];
    u32 least = ~0u;
    for (u32 other = 0; other < set; ++other) {
        const uint4 low = held[2 * other], high = held[2 * other + 1];
        const u32 theirs[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        u32 distance = 0;
#pragma unroll
        for (u32 word = 0; word < 8; ++word) {
            u32 bits = mine[word] ^ theirs[word];
            bits -= (bits >> 1) & 0x55555555;
            bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333);
            bits = (bits + (bits >> 4)) & 0x0f0f0f0f;
            distance += (bits * 0x01010101) >> 24;
        }
        least = min(least, distance);
    }
    nearest[query] = least;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const u32 *__restrict__ queries, const uint4 *__restrict__ others, u32 *__restrict__ nearest, u32 count, u32 set)
{
    __shared__ uint4 held[2 * most];
    for (u32 index = threadIdx.x; index < 2 * set; index += 256)
        held[index] = others[index];
    __syncthreads();
    const u32 query = blockIdx.x * 256 + threadIdx.x;
    if (query >= count)
        return;
    u32 mine[8];
#pragma unroll
    for (u32 word = 0; word < 8; ++word)
        mine[word] = queries[(size_t)word * count + query];
    u32 least = ~0u;
    for (u32 other = 0; other < set; ++other) {
        const uint4 low = held[2 * other], high = held[2 * other + 1];
        const u32 theirs[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        u32 distance = 0;
#pragma unroll
        for (u32 word = 0; word < 8; ++word)
            distance += __popc(mine[word] ^ theirs[word]);
        least = min(least, distance);
    }
    nearest[query] = least;
}
