// FP8 and FP6 matrix multiplies with block scales that one SM completes per clock through
// mma.sync.kind::mxf8f6f4.m16n8k32.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// An element takes a byte, FP6 its low six bits; a scale UE8M0 is for 32 elements. All scales are 1.
// Formula: 2 · 16 · 8 · 32 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: too few sums and warps for the latency of 20 to 35 cycles; operands or clocks that power
// limits: random data.
#include "mma-types.cuh"

#define JOIN_(type, sum) mx_##type##_##sum
#define JOIN(type, sum) JOIN_(type, sum)

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_mxf8f6f4_f32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<JOIN(TYPE, f32)>(clocks, iterations, a, b, d);
}
