// FP64 matrix multiplies that one SM of Hopper completes per clock through mma.sync.m16n8k16.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// Formula: 2 · 16 · 8 · 16 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: too few sums in flight; clocks under random data: nothing draws more power.
#include "mma-types.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
mma_sync_f64_f64_m16(Clocks *clocks, u32 iterations, const u64 *a, const u64 *b, double *d) {
    multiply<f64_f64_m16>(clocks, iterations, a, b, d);
}
