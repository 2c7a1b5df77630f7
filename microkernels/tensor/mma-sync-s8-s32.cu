// INT8 matrix multiplies that one SM completes per clock through mma.sync.m16n8k32 (m8n8k16 on sm_75).
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// Formula: 2 · M · 8 · K operations · TILES · DEPTH · REPEAT · warps · iterations / cycles; K is 2 · M.
// What would make it lie: m8n8k16 on newer architectures, which is half of a larger instruction there; too few sums in
// flight; operands or clocks that power limits: random data.
#include "mma-types.cuh"

#if M == 16
using Mma = s8_s32;
#else
using Mma = s8_s32_m8;
#endif

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_s8_s32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<Mma>(clocks, iterations, a, b, d);
}
