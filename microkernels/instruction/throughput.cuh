// The loop of the throughput probes: CHAINS independent chains per thread, UNROLL links on each per iteration.
// A probe defines ENTRY (its kernel), OPERATION (a function of operations.cuh) and VALUE (what that works on).
#pragma once
#include "operations.cuh"

extern "C" __global__ void __launch_bounds__(1024)
ENTRY(Clocks *clocks, u32 iterations, u32 *sink, VALUE a, VALUE b) {
    VALUE x[CHAINS];
    a = vary(a, threadIdx.x);
    b = vary(b, threadIdx.x);
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) x[chain] = vary(a, chain);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int link = 0; link < UNROLL; ++link)
#pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain)
                x[chain] = OPERATION(x[chain], x[(chain + 1) % CHAINS], link % 2 ? b : a, link % 2 ? a : b);
    }
    end(clocks, start);
    u32 sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) sum += bits(x[chain]);
    keep(sink, sum);
}
