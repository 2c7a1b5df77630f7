// The loop of the latency probes: one warp, one chain, UNROLL links per iteration, each of which needs the one before.
// A probe defines ENTRY (its kernel), OPERATION (a function of operations.cuh) and VALUE (what that works on).
#pragma once
#include "operations.cuh"

extern "C" __global__ void __launch_bounds__(32)
ENTRY(Clocks *clocks, u32 iterations, u32 *sink, VALUE a, VALUE b) {
    a = vary(a, threadIdx.x);
    b = vary(b, threadIdx.x);
    VALUE x = a, before = b;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int link = 0; link < UNROLL; ++link) {
            const VALUE next = OPERATION(x, before, link % 2 ? b : a, link % 2 ? a : b);
            before = x;
            x = next;
        }
    }
    end(clocks, start);
    keep(sink, bits(x));
}
