// Bytes per second that all SMs together read from random places of DRAM, in pieces of SPAN bytes.
// Mechanism: SPAN / 16 neighbouring lanes load 16 bytes each of one piece. Each piece of the buffer is as likely as any
// other: a linear congruential generator (period 2^32), whose high half times the number of pieces is the place. DEPTH
// loads per thread are independent. At 32 bytes a piece is one sector, the least that moves.
// Formula: 16 * DEPTH bytes * threads * iterations / time: what was asked for, not what moved.
// What would make it lie: what L2 holds (1/64 of the buffer at most), an L2 that fetches two sectors at a time (32
// bytes then show half of what the bus moved), address translations (each piece is on another page; they are part of
// the result), too few loads in flight.
#include "vector.cuh"

// Neighbours begin at unrelated numbers: with a common distance all places of a warp would have one, too.
__device__ __forceinline__ u32 scrambled(u32 x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
dram_random(Clocks *clocks, u32 iterations, u32 *sink, const char *buffer, u64 bytes) {
    const u32 pieces = bytes / SPAN;
    const char *const lane = buffer + threadIdx.x % (SPAN / 16) * 16;
    u32 random = scrambled((blockIdx.x * BLOCK + threadIdx.x) / (SPAN / 16));
    Vector<16> sum = own_words<16>();
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        Vector<16> value[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) {
            random = random * 1664525u + 1013904223u;
            load(value[k], lane + (u64)__umulhi(random, pieces) * SPAN);
        }
        fold(sum, value);
    }
    end(clocks, start);
    keep(sink, folded(sum));
}
