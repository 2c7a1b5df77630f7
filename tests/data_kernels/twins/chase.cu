// Cycles of a load that the next one waits for.
// Mechanism: one thread follows addresses through memory. With CHAINS = 2 it follows two at once, which hides latency.
#include "probe.cuh"

extern "C" __global__ void chase(Clocks *clocks, u32 iterations, u32 *sink, const u64 *cycle) {
    u64 place[CHAINS];
    for (int chain = 0; chain < CHAINS; ++chain) place[chain] = (u64)(cycle + chain);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i)
#pragma unroll
        for (int step = 0; step < 16; ++step)
            asm volatile("ld.global.u64 %0, [%0];" : "+l"(place[step % CHAINS]));
    end(clocks, start);
    for (int chain = 0; chain < CHAINS; ++chain) keep(sink, (u32)place[chain]);
}
