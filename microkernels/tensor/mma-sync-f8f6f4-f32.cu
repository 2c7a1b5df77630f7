// FP6 and FP4 matrix multiplies that one SM completes per clock through mma.sync.kind::f8f6f4.m16n8k32.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// An element takes a byte: FP6 its low six bits, FP4 bits 5 to 2. FP4 runs at the rate of FP8 here; mma-sync-mxf4-f32
// has its own.
// Formula: 2 · 16 · 8 · 32 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: too few sums and warps for the latency of 20 to 35 cycles; GeForce adds to FP32 at half the
// rate; operands or clocks that power limits: random data.
#include "mma-types.cuh"

#define JOIN_(type, sum) type##_##sum
#define JOIN(type, sum) JOIN_(type, sum)

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_f8f6f4_f32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<JOIN(TYPE, f32)>(clocks, iterations, a, b, d);
}
