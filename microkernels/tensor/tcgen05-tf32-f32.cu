// TF32 matrix multiplies that one SM completes per clock through tcgen05.mma, one block an instruction.
// Mechanism: one thread has 128 × N × 8 multiplied 4 · REPEAT times an iteration, from swizzled tiles in shared memory
// into tensor memory, and waits for one iteration while the next is on its way (tcgen05.cuh). Nothing is loaded in the
// loop.
// Formula: 2 · 128 · N · 8 FLOP · 4 · REPEAT · blocks · iterations / cycles.
// What would make it lie: not waiting for the end, N too small for the reading of A, wrong descriptors (types and
// shape stand only there; the tile is checked), clocks that power limits: random data.
#define KIND "tf32"
#define FORMAT 2
#define SUM 1
#define SIGN make_uint4(0x80000000, 0x80000000, 0x80000000, 0x80000000)
#define PAIR 1
#include "tcgen05.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
tcgen05_tf32_f32(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<false>(clocks, iterations, a, b, d);
}
