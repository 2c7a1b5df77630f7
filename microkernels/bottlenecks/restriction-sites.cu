// Tells which of 32 motifs of six bases occur in each DNA read of 2048 bases: reads[count][128] with 16 bases a word,
// the first in the lowest two bits; motifs[32] likewise; found[count] has a bit for each motif.
#include "case.cuh"

#define BASES 2048
#define WORDS (BASES / 16)
#define LENGTH 6
#define STATE_BYTES (4 * 32 * 4)

static __device__ __forceinline__ u32 prefix(u32 bases, u32 length) { return bases & ((1u << 2 * length) - 1); }

// How many bases of the motif are matched once `base` follows `matched` of them.
static __device__ __forceinline__ u32 successor(u32 motif, u32 matched, u32 base) {
    if (matched == LENGTH) return LENGTH;
    const u32 seen = prefix(motif, matched) | base << 2 * matched;
    u32 longest = 0;
#pragma unroll
    for (u32 length = 1; length <= LENGTH; length++)
        if (length <= matched + 1 && seen >> 2 * (matched + 1 - length) == prefix(motif, length)) longest = length;
    return longest;
}

extern "C" __global__ void __launch_bounds__(256, 8)
slow(const u32 *__restrict__ reads, const u32 *__restrict__ motifs, u32 *__restrict__ found) {
    __shared__ u32 table[(LENGTH + 1) * 4 * 32];
    __shared__ uint4 offsets[BASES / 4];
    const u32 t = threadIdx.x, lane = t % 32, state = t / 32;
    const u32 *read = reads + (u64)blockIdx.x * WORDS;
    for (u32 i = t; i < BASES / 4; i += 256) {
        const u32 four = read[i / 4] >> i % 4 * 8;
        offsets[i] = make_uint4((four & 3) * 128, (four >> 2 & 3) * 128, (four >> 4 & 3) * 128, (four >> 6 & 3) * 128);
    }
    if (state <= LENGTH)
        for (u32 base = 0; base < 4; base++)
            table[(state * 4 + base) * 32 + lane] = successor(motifs[lane], state, base) * STATE_BYTES + lane * 4;
    __syncthreads();
    if (t >= 32) return;
    const char *places = (const char *)table;
    u32 at = lane * 4;
#pragma unroll 4
    for (u32 i = 0; i < BASES / 4; i++) {
        const uint4 next = offsets[i];
        at = *(const u32 *)(places + at + next.x);
        at = *(const u32 *)(places + at + next.y);
        at = *(const u32 *)(places + at + next.z);
        at = *(const u32 *)(places + at + next.w);
    }
    const u32 all = __ballot_sync(0xffffffffu, at / STATE_BYTES == LENGTH);
    if (lane == 0) found[blockIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(256, 8)
fixed(const u32 *__restrict__ reads, const u32 *__restrict__ motifs, u32 *__restrict__ found) {
    __shared__ u32 words[WORDS], parts[8];
    const u32 t = threadIdx.x, lane = t % 32, warp = t / 32;
    if (t < WORDS) words[t] = reads[(u64)blockIdx.x * WORDS + t];
    __syncthreads();
    const u32 motif = motifs[lane];
    // What follows the last word, so that no motif ends there.
    const u32 beyond = (~(motif >> 2 * (LENGTH - 1)) & 3) * 0x55555555u;
    u32 nearest = ~0u;
#pragma unroll 2
    for (u32 i = warp * (WORDS / 8); i < (warp + 1) * (WORDS / 8); i++) {
        const u32 low = words[i], high = i + 1 < WORDS ? words[i + 1] : beyond;
#pragma unroll
        for (u32 k = 0; k < 16; k++)
            nearest = min(nearest, prefix(__funnelshift_r(low, high, 2 * k) ^ motif, LENGTH));
    }
    const u32 mine = __ballot_sync(0xffffffffu, nearest == 0);
    if (lane == 0) parts[warp] = mine;
    __syncthreads();
    if (t >= 32) return;
    const u32 all = __reduce_or_sync(0xffffffffu, parts[t % 8]);
    if (t == 0) found[blockIdx.x] = all;
}
