// Cycles from one wgmma.m64nNk16 of BF16 until its end is known and the next, which adds to its result, is on its way.
// Mechanism: one warpgroup; 4 · REPEAT groups of one instruction an iteration, each waited for (wgmma.cuh).
// Formula: cycles / (4 · REPEAT · iterations).
// What would make it lie: an instruction that begins before the end of the last (published 32, 64 and 128 cycles for n
// = 64, 128 and 256 are the rate); the fence and the wait are part of it, as in a program that needs the result.
#define TYPES "k16.f32.bf16.bf16"
#define AFTER_SHARED ", 1, 1, 0, 0"
#define AFTER_REGISTERS ", 1, 1, 0"
#define SIGN 0x80008000u
#define PACKED 1
#include "wgmma.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
wgmma_latency(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<4 * REPEAT, 0>(clocks, iterations, a, b, d);
}
