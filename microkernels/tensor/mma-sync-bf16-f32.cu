// BF16 matrix multiplies with FP32 accumulators that one SM completes per clock through mma.sync.m16n8k16.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// Formula: 2 · 16 · 8 · 16 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: too few sums and warps for the latency of 20 to 35 cycles; operands or clocks that power
// limits: random data.
#include "mma-types.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_bf16_f32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<bf16_f32>(clocks, iterations, a, b, d);
}
