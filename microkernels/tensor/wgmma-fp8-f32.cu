// FP8 matrix multiplies that one SM of Hopper completes per clock through wgmma.m64nNk32.
// Mechanism: every warpgroup multiplies swizzled tiles in shared memory (A also from registers), groups of 4 · REPEAT
// instructions, one group behind the other (wgmma.cuh). Nothing is loaded in the loop.
// Formula: 2 · 64 · N · 32 FLOP · 4 · REPEAT · warpgroups · iterations / cycles.
// What would make it lie: a compiler that waits after each instruction (the gate counts the waits), N too small to
// hide the reading of A, wrong descriptors (the tile is checked), clocks that power limits: random data.
#define TYPES "k32.f32." TEXT(TYPE) "." TEXT(TYPE)
#define AFTER_SHARED ", 1, 1"
#define AFTER_REGISTERS ", 1, 1"
#define SIGN 0x80808080u
#define PACKED 1
#include "wgmma.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
wgmma_fp8_f32(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<1, 1>(clocks, iterations, a, b, d);
}
