// FP64 matrix multiplies that one SM completes per clock through mma.sync.m8n8k4.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// Formula: 2 · 8 · 8 · 4 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: chips without FP64 tensor cores (sm_86, sm_87, sm_89, sm_103, sm_12x), which run it
// elsewhere; too few sums in flight; clocks under random data: nothing draws more power.
#include "mma-types.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_f64_f64(Clocks *clocks, u32 iterations, const u64 *a, const u64 *b, double *d) {
    multiply<f64_f64>(clocks, iterations, a, b, d);
}
