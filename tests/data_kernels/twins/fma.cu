// FP32 fused multiply-adds that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x * a + b; enough warps hide the latency of 4 cycles.
// Formula: 2 FLOP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: constants that the compiler folds (a and b are arguments), fewer chains than the latency needs,
// two multiplicands in one register bank, a clock that changes while it runs.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(1024)
fused(Clocks *clocks, u32 iterations, u32 *sink, float a, float b) {
    float x[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) x[chain] = threadIdx.x + chain;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step)
#pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain) x[chain] = fmaf(x[chain], a, b);
    }
    end(clocks, start);
    float sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) sum += x[chain];
    keep(sink, sum);
}
