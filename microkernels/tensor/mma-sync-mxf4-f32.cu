// FP4 matrix multiplies with block scales that one SM completes per clock through mma.sync.m16n8k64.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// TYPE: mxf4 has a scale UE8M0 for 32 elements, nvf4 (kind::mxf4nvf4) one UE4M3 for 16. All scales are 1.
// Formula: 2 · 16 · 8 · 64 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: too few sums and warps for the latency of 20 to 35 cycles; operands or clocks that power
// limits: random data.
#include "mma-types.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_mxf4_f32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<TYPE>(clocks, iterations, a, b, d);
}
