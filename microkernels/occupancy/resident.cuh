// The kernel of the probes of occupancy limits.
// Mechanism: a block stays on its SM for iterations * PERIOD cycles, however many others are there, and leaves a record
// of its SM and of the clock at its begin and end. More blocks are launched than fit; those of one SM whose times
// overlap were there at once.
// Formula: the most records of one SM that overlap.
// What would make it lie: blocks that end before the last that fits has begun (too few iterations), another program on
// the GPU, a smaller carve-out for shared memory than asked for, registers that the compiler does not use.
// A probe defines ENTRY (its kernel), BOUNDS (what limits its registers) and LIVE (registers that are kept alive).
#pragma once
#include "probe.cuh"

extern "C" __global__ void BOUNDS
ENTRY(Clocks *clocks, u32 iterations, u32 *sink, float a, float b) {
    float x[LIVE];
#pragma unroll
    for (int i = 0; i < LIVE; ++i) x[i] = threadIdx.x + i;
    const Stamp start = begin();
    const u64 last = start.cycles + (u64)iterations * PERIOD;
    u64 cycles;
#pragma unroll 1
    do {
#pragma unroll
        for (int i = 0; i < LIVE; ++i) x[i] = fmaf(x[i], a, b);
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
    } while (cycles < last);
    end(clocks, start);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < LIVE; ++i) sum += x[i];
    keep(sink, sum);
}
