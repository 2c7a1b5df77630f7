// Hashes messages of 17 words with Keccak (SHA3-256, one padded block each): messages[17][count] →
// digests[4][count].
#include "case.cuh"

__constant__ u64 round_constants[24] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b,
    0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088,
    0x0000000080008009, 0x000000008000000a, 0x000000008000808b, 0x800000000000008b, 0x8000000000008089,
    0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
};

static __device__ __forceinline__ u64 turned(u64 word, u32 by)
{
    return by == 0 ? word : (word << by) | (word >> (64 - by));
}

// One round on the 25 words at (x, y) = state[x + 5 y].
static __device__ __forceinline__ void permute(u64 (&state)[25], u64 constant)
{
    // How far the word at (x, y) is turned.
    constexpr u32 turn[25] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                              25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};
    u64 column[5], moved[25];
#pragma unroll
    for (u32 x = 0; x < 5; ++x)
        column[x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20];
#pragma unroll
    for (u32 x = 0; x < 5; ++x) {
        const u64 parity = column[(x + 4) % 5] ^ turned(column[(x + 1) % 5], 1);
#pragma unroll
        for (u32 y = 0; y < 5; ++y)
            moved[y + 5 * ((2 * x + 3 * y) % 5)] = turned(state[x + 5 * y] ^ parity, turn[x + 5 * y]);
    }
#pragma unroll
    for (u32 y = 0; y < 5; ++y)
#pragma unroll
        for (u32 x = 0; x < 5; ++x)
            state[x + 5 * y] = moved[x + 5 * y] ^ (~moved[(x + 1) % 5 + 5 * y] & moved[(x + 2) % 5 + 5 * y]);
    state[0] ^= constant;
}

static __device__ __forceinline__ void absorb(u64 (&state)[25], const u64 *__restrict__ messages, u32 count,
                                              u32 message)
{
#pragma unroll
    for (u32 word = 0; word < 25; ++word)
        state[word] = word < 17 ? messages[(size_t)word * count + message] : 0;
}

static __device__ __forceinline__ void squeeze(const u64 (&state)[25], u64 *__restrict__ digests, u32 count,
                                               u32 message)
{
#pragma unroll
    for (u32 word = 0; word < 4; ++word)
        digests[(size_t)word * count + message] = state[word];
}

extern "C" __global__ void __launch_bounds__(256, 6)
slow(const u64 *__restrict__ messages, u64 *__restrict__ digests, u32 count)
{
    const u32 message = blockIdx.x * 256 + threadIdx.x;
    if (message >= count)
        return;
    u64 state[25];
    absorb(state, messages, count, message);
#pragma unroll 1
    for (u32 round = 0; round < 24; ++round)
        permute(state, round_constants[round]);
    squeeze(state, digests, count, message);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const u64 *__restrict__ messages, u64 *__restrict__ digests, u32 count)
{
    const u32 message = blockIdx.x * 256 + threadIdx.x;
    if (message >= count)
        return;
    u64 state[25];
    absorb(state, messages, count, message);
#pragma unroll 1
    for (u32 round = 0; round < 24; ++round)
        permute(state, round_constants[round]);
    squeeze(state, digests, count, message);
}
