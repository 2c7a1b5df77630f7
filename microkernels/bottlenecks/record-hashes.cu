// Hashes records of 128 words with many seeds (FNV-1a by word): records[128][count], seeds[hashed] →
// hashes[hashed][count].
#include "case.cuh"

constexpr u32 words = 128, prime = 16777619;

extern "C" __global__ void __launch_bounds__(128)
slow(const u32 *__restrict__ records, const u32 *__restrict__ seeds, u32 *__restrict__ hashes, u32 count, u32 hashed)
{
    const u32 record = blockIdx.x * 128 + threadIdx.x;
    u32 word[words];
#pragma unroll
    for (u32 index = 0; index < words; ++index)
        word[index] = records[(size_t)index * count + record];
    u32 *to = hashes + record, seed = seeds[0];
    for (u32 which = 0; which < hashed; ++which) {
        const u32 next = seeds[min(which + 1, hashed - 1)];
        u32 hash = seed;
#pragma unroll
        for (u32 index = 0; index < words; ++index)
            hash = (hash ^ word[index]) * prime;
        *to = hash;
        to += count;
        seed = next;
    }
}

extern "C" __global__ void __launch_bounds__(128)
fixed(const u32 *__restrict__ records, const u32 *__restrict__ seeds, u32 *__restrict__ hashes, u32 count, u32 hashed)
{
    constexpr u32 together = 4;
    const u32 record = blockIdx.x * 128 + threadIdx.x;
    u32 word[words];
#pragma unroll
    for (u32 index = 0; index < words; ++index)
        word[index] = records[(size_t)index * count + record];
    u32 *to = hashes + record;
    for (u32 which = 0; which < hashed; which += together) {
        u32 hash[together];
#pragma unroll
        for (u32 part = 0; part < together; ++part)
            hash[part] = seeds[which + part];
#pragma unroll
        for (u32 index = 0; index < words; ++index)
#pragma unroll
            for (u32 part = 0; part < together; ++part)
                hash[part] = (hash[part] ^ word[index]) * prime;
#pragma unroll
        for (u32 part = 0; part < together; ++part) {
            *to = hash[part];
            to += count;
        }
    }
}
