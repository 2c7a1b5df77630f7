// Binary matrix multiplies that one SM completes per clock through mma.sync.m16n8k256 (m8n8k128 on sm_75).
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// Formula: 2 · M · 8 · K operations · TILES · DEPTH · REPEAT · warps · iterations / cycles; K is 16 · M.
// What would make it lie: sm_100 and newer have no such instruction: the compiler calls a subroutine of IMMA and logic
// for each (the gate says `emulated`); too few sums in flight. Half of the operations are AND (sm_75: XOR).
#include "mma-types.cuh"

#define JOIN_(type, by) type##_##by
#define JOIN(type, by) JOIN_(type, by)

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_b1_s32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<JOIN(b1_s32, BY)>(clocks, iterations, a, b, d);
}
