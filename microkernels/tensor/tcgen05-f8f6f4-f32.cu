// FP8, FP6 and FP4 matrix multiplies that one SM completes per clock through tcgen05.mma, one block an instruction.
// Mechanism: one thread has 128 × N × 32 multiplied 4 · REPEAT times an iteration, from swizzled tiles in shared
// memory into tensor memory, and waits for one iteration while the next is on its way (tcgen05.cuh). Nothing is loaded
// in the loop.
// Sixteen elements take 16 bytes of a row: FP6 the first 12, FP4 the first 8 of them. FP4 has the rate of FP8 here;
// tcgen05-mxf4-f32 has its own.
// Formula: 2 · 128 · N · 32 FLOP · 4 · REPEAT · blocks · iterations / cycles.
// What would make it lie: not waiting for the end, N too small for the reading of A, wrong descriptors (types and
// shape stand only there; the tile is checked), clocks that power limits: random data.
#include "probe.cuh"

constexpr u32 e4m3 = 0, e5m2 = 1, e2m3 = 3, e3m2 = 4, e2m1 = 5;

__device__ __forceinline__ uint4 signs(u32 type) {
    if (type == e2m1) return make_uint4(0x88888888, 0x88888888, 0, 0);
    if (type == e2m3 || type == e3m2) return make_uint4(0x20820820, 0x08208208, 0x82082082, 0);
    return make_uint4(0x80808080, 0x80808080, 0x80808080, 0x80808080);
}

#define KIND "f8f6f4"
#define FORMAT TYPE
#define SUM 1
#define SIGN signs(TYPE)
#define PAIR 1
#include "tcgen05.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
tcgen05_f8f6f4_f32(Clocks *clocks, u32 iterations, const uint4 *a, const uint4 *b, u32 *d) {
    multiply<false>(clocks, iterations, a, b, d);
}
