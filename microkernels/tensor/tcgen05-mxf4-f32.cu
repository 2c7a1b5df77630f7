// Block-scaled FP4 matrix multiplies that one SM completes per clock through tcgen05.mma, one block an instruction.
// Mechanism: one thread has 128 × N × 64 multiplied 4 · REPEAT times an iteration, from swizzled tiles in shared
// memory into tensor memory, and waits for one iteration while the next is on its way (tcgen05.cuh). Nothing is loaded
// in the loop.
// TYPE: mxf4 has a scale UE8M0 for 32 elements, nvf4 (kind::mxf4nvf4) one UE4M3 for 16. All scales are 1.
// sm_103 reaches its full rate with K = 96 only, which this is not.
// Formula: 2 · 128 · N · 64 FLOP · 4 · REPEAT · blocks · iterations / cycles.
// What would make it lie: not waiting for the end, N too small for the reading of A, wrong descriptors (types and
// shape stand only there; the tile is checked), clocks that power limits: random data.
#define KIND_mxf4 "mxf4.block_scale.scale_vec::2X"
#define KIND_nvf4 "mxf4nvf4.block_scale.scale_vec::4X"
#define SCALE_mxf4 0x7f7f7f7f
#define SCALE_nvf4 0x38383838
#define SCALE_TYPE_mxf4 1
#define SCALE_TYPE_nvf4 0
#define JOIN_(what, type) what##_##type
#define JOIN(what, type) JOIN_(what, type)
#define KIND JOIN(KIND, TYPE)
#define SCALE JOIN(SCALE, TYPE)
#define SCALE_TYPE JOIN(SCALE_TYPE, TYPE)
#define FORMAT 1
#define SIGN make_uint4(0x88888888, 0x88888888, 0x88888888, 0x88888888)
#define PAIR 1
#include "tcgen05.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
tcgen05_mxf4_f32(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<false>(clocks, iterations, a, b, d);
}
