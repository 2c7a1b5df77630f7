// FP16 matrix multiplies with FP32 accumulators.
// Mechanism: every warp runs TILES independent accumulators over fragments that come from memory.
// Formula: 2 * 16 * 8 * 16 FLOP * TILES * UNROLL * warps * iterations / cycles.
// What would make it lie: fragments known to be zero, an emulated instruction.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(512)
mma(Clocks *clocks, u32 iterations, u32 *sink, const u32 *fragments) {
    const u32 *fragment = fragments + (threadIdx.x % 32) * 6;
    u32 a[4], b[2];
    float c[TILES][4];
    for (int i = 0; i < 4; ++i) a[i] = fragment[i];
    for (int i = 0; i < 2; ++i) b[i] = fragment[4 + i];
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
        for (int i = 0; i < 4; ++i) c[tile][i] = 0;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step)
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile)
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                    : "+f"(c[tile][0]), "+f"(c[tile][1]), "+f"(c[tile][2]), "+f"(c[tile][3])
                    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    end(clocks, start);
    float sum = 0;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
        for (int i = 0; i < 4; ++i) sum += c[tile][i];
    keep(sink, sum);
}
