// Block-scaled FP8 matrix multiplies that one SM completes per clock through tcgen05.mma, one block an instruction.
// Mechanism: one thread has 128 × N × 32 multiplied 4 · REPEAT times an iteration, from swizzled tiles in shared
// memory into tensor memory, and waits for one iteration while the next is on its way (tcgen05.cuh). Nothing is loaded
// in the loop.
// E4M3 with a scale UE8M0 for 32 elements (kind::mxf8f6f4). All scales are 1.
// Formula: 2 · 128 · N · 32 FLOP · 4 · REPEAT · blocks · iterations / cycles.
// What would make it lie: not waiting for the end, N too small for the reading of A, wrong descriptors (types and
// shape stand only there; the tile is checked), clocks that power limits: random data.
#define KIND "mxf8f6f4.block_scale.scale_vec::1X"
#define SCALE 0x7f7f7f7f
#define SCALE_TYPE 1
#define FORMAT 0
#define SIGN make_uint4(0x80808080, 0x80808080, 0x80808080, 0x80808080)
#define PAIR 1
#include "tcgen05.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
tcgen05_mxf8_f32(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<false>(clocks, iterations, a, b, d);
}
