// Chases through 64 KiB of constant memory: sixteen cycles of different sizes, one in each word of the lines.
#pragma once
#include "probe.cuh"

constexpr u32 LINE = 64, WORDS = LINE / sizeof(u32), LINES = 65536 / LINE;
constexpr u32 SIZES[WORDS] = {512,   1024,  1536,  2048,  2560,  3072,  4096,  8192,
                              12288, 16384, 24576, 32768, 40960, 49152, 57344, 65536};

__device__ constexpr bool coprime(u32 a, u32 b) {
    return b == 0 ? a == 1 : coprime(b, a % b);
}

// At each place the offset of the next. A step coprime to the number of lines makes one cycle of all of them.
struct Cycles {
    u32 next[LINES * WORDS];

    __device__ constexpr Cycles() : next{} {
        for (u32 word = 0; word < WORDS; ++word) {
            const u32 lines = SIZES[word] / LINE;
            u32 step = lines * 5 / 8;
            while (!coprime(step, lines)) ++step;
            for (u32 line = 0; line < lines; ++line)
                next[line * WORDS + word] = (line + step) % lines * LINE + word * sizeof(u32);
        }
    }
};

__constant__ Cycles cycles = Cycles();

// The offset at which the smallest cycle begins that has at least `size` bytes.
__device__ __forceinline__ u32 cycle_of(u32 size) {
    u32 word = 0;
    while (word < WORDS - 1 && SIZES[word] < size) ++word;
    return word * sizeof(u32);
}

// The block is one warp, but the compiler thinks of two: an offset that it knows to be the same for all threads of the
// block would be loaded by LDCU on sm_100 and up, which is another path.
template <int STEPS>
__device__ __forceinline__ void chase_constants(Clocks *clocks, u32 iterations, u32 *sink, u32 size) {
    u32 offset = cycle_of(size) ^ (threadIdx.x / 32);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) offset = *(const u32 *)((const char *)cycles.next + offset);
    }
    end(clocks, start);
    keep(sink, offset);
}
