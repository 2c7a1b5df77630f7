// INT4 matrix multiplies that one SM completes per clock through mma.sync.m16n8k64 (m8n8k32 on sm_75).
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// Formula: 2 · M · 8 · K operations · TILES · DEPTH · REPEAT · warps · iterations / cycles; K is 4 · M.
// What would make it lie: Hopper and newer have no such instruction: the compiler calls a subroutine of IMMA and logic
// for each (the gate says `emulated`); too few sums in flight; operands or clocks that power limits: random data.
#include "mma-types.cuh"

#if M == 16
using Mma = s4_s32;
#else
using Mma = s4_s32_m8;
#endif

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_s4_s32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<Mma>(clocks, iterations, a, b, d);
}
