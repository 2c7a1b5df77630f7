// FP16 matrix multiplies with FP16 accumulators that one SM completes per clock through mma.sync.m16n8k16.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// Formula: 2 · 16 · 8 · K FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: too few sums and warps for the latency of 20 to 35 cycles; sums that leave the range of
// FP16; operands or clocks that power limits: random data.
#include "mma-types.cuh"

#if K == 16
using Mma = f16_f16;
#else
using Mma = f16_f16_k8;
#endif

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_f16_f16(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<Mma>(clocks, iterations, a, b, d);
}
