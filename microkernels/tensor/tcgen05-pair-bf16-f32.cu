// BF16 matrix multiplies that one SM completes per clock through tcgen05.mma, two blocks an instruction.
// Mechanism: one thread has 256 × N × 16 multiplied 4 · REPEAT times an iteration, from swizzled tiles in shared
// memory into tensor memory, and waits for one iteration while the next is on its way (tcgen05.cuh). Nothing is loaded
// in the loop.
// Formula: 2 · 256 · N · 16 FLOP · 4 · REPEAT · pairs of blocks · iterations / cycles.
// What would make it lie: not waiting for the end, N too small for the reading of A, wrong descriptors (types and
// shape stand only there; the tile is checked), clocks that power limits: random data.
#define KIND "f16"
#define FORMAT 1
#define SUM 1
#define SIGN make_uint4(0x80008000, 0x80008000, 0x80008000, 0x80008000)
#define PAIR 2
#include "tcgen05.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128, 1)
tcgen05_pair_bf16_f32(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<false>(clocks, iterations, a, b, d);
}
