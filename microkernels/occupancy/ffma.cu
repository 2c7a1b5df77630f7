// FP32 fused multiply-adds per clock of one SM against the warps that it holds and the independent ones in each.
// Mechanism: CHAINS independent chains of x = x * a + b per thread. A warp issues CHAINS of them per latency (4 cycles)
// so that the rate grows with warps * CHAINS until every scheduler issues one per clock.
// Formula: 2 FLOP * LINKS * threads * iterations / cycles.
// What would make it lie: fewer blocks on an SM than asked for, an uneven spread of blocks over SMs, the jump of the
// loop, which a single warp with a single chain cannot hide.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(128)
ffma(Clocks *clocks, u32 iterations, u32 *sink, float a, float b) {
    float x[CHAINS];
    a += threadIdx.x * 0x1p-20f;
    b += threadIdx.x * 0x1p-20f;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) x[chain] = a + chain;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int link = 0; link < LINKS; ++link) x[link % CHAINS] = fmaf(x[link % CHAINS], a, b);
    }
    end(clocks, start);
    float sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) sum += x[chain];
    keep(sink, sum);
}
