// FP8 matrix multiplies with FP32 accumulators that one SM completes per clock through mma.sync.m16n8k32.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// On sm_90 to sm_110 the compiler unpacks to FP16, multiplies with HMMA into zero and adds: the gate says `emulated`.
// It merges equal products there, so each product of an iteration has operands of its own (REPEAT 1).
// Formula: 2 · 16 · 8 · 32 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: merged products where it is emulated (8 with constant operands become 2: the gate counts);
// too few sums and warps for the latency of 20 to 35 cycles; GeForce adds to FP32 at half the rate.
#include "mma-types.cuh"

#define JOIN_(type, sum) type##_##sum
#define JOIN(type, sum) JOIN_(type, sum)

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_fp8_f32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<JOIN(TYPE, f32)>(clocks, iterations, a, b, d);
}
