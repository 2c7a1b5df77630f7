// Cycles from one tcgen05.mma of BF16 until its end is known and the next, which adds to its result, is on its way.
// Mechanism: one thread issues 4 · REPEAT instructions an iteration, commits each to a barrier and waits
// (tcgen05.cuh).
// Formula: cycles / (4 · REPEAT · iterations).
// What would make it lie: the time between two issues taken for the latency (published 11 cycles are that); the way
// over the barrier and the moves into uniform registers are part of it, as in a program that needs the result.
#define KIND "f16"
#define FORMAT 1
#define SUM 1
#define SIGN make_uint4(0x80008000, 0x80008000, 0x80008000, 0x80008000)
#define PAIR 1
#include "tcgen05.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
tcgen05_latency(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<true>(clocks, iterations, a, b, d);
}
