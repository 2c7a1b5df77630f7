// FP8 matrix multiplies: native (QMMA) on sm_89 and sm_12x, emulated with HMMA on sm_90 to sm_110.
// Mechanism: one chain of STEPS * REPEAT products over STEPS different fragments.
// What would make it lie: with STEPS = 1 the emulation computes the product once and adds it REPEAT times.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(256)
fp8_mma(Clocks *clocks, u32 iterations, u32 *sink, const u32 *fragments) {
    u32 a[STEPS][4], b[STEPS][2];
    float c[4] = {0, 0, 0, 0};
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        const u32 *fragment = fragments + (s * 32 + threadIdx.x % 32) * 6;
#pragma unroll
        for (int i = 0; i < 4; ++i) a[s][i] = fragment[i];
        b[s][0] = fragment[4];
        b[s][1] = fragment[5];
    }
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i)
#pragma unroll
        for (int k = 0; k < STEPS * REPEAT; ++k) {
            const int s = k % STEPS;
            asm volatile(
                "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(a[s][0]), "r"(a[s][1]), "r"(a[s][2]), "r"(a[s][3]), "r"(b[s][0]), "r"(b[s][1]));
        }
    end(clocks, start);
    keep(sink, c[0] + c[1] + c[2] + c[3]);
}
