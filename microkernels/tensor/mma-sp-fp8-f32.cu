// Structured-sparse FP8 matrix multiplies that one SM completes per clock through mma.sp.m16n8k64.
// Mechanism: every warp adds up TILES products at a time, DEPTH · REPEAT times an iteration, all in registers
// (mma-sync.cuh).
// Half of A is zero and not held: of 4 consecutive k, it holds 0 and 2.
// Formula: 2 · 16 · 8 · 64 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles. The zeros count, as in
// datasheets.
// What would make it lie: `mma.sp` without `::ordered_metadata`, which newer architectures emulate; a rate that counts
// the zeros held against a dense limit; too few sums in flight; operands or clocks that power limits: random data.
#include "mma-types.cuh"

#define JOIN_(type, sum) sparse_##type##_##sum
#define JOIN(type, sum) JOIN_(type, sum)

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sp_fp8_f32(Clocks *clocks, u32 iterations, const u32 *a, const u32 *b, u32 *d) {
    multiply<JOIN(TYPE, f32)>(clocks, iterations, a, b, d);
}
