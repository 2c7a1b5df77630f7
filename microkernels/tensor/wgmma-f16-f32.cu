// FP16 matrix multiplies that one SM of Hopper completes per clock through wgmma.m64nNk16.
// Mechanism: every warpgroup multiplies swizzled tiles in shared memory (A also from registers), groups of 4 · REPEAT
// instructions, one group behind the other (wgmma.cuh). Nothing is loaded in the loop.
// Formula: 2 · 64 · N · 16 FLOP · 4 · REPEAT · warpgroups · iterations / cycles.
// What would make it lie: a compiler that waits after each instruction (the gate counts the waits), N too small to
// hide the reading of A, wrong descriptors (the tile is checked), clocks that power limits: random data.
#define TYPES "k16.f32.f16.f16"
#define AFTER_SHARED ", 1, 1, 0, 0"
#define AFTER_REGISTERS ", 1, 1, 0"
#define SIGN 0x80008000u
#define PACKED 1
#include "wgmma.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
wgmma_f16_f32(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<1, 1>(clocks, iterations, a, b, d);
}
