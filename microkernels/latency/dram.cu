// Cycles from a global load that misses all caches to its value.
// Mechanism: one warp walks a random cycle of lines through 32 times L2. The addresses were written before; other
// memory was written after them, twice as much as L2 holds.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: lines that the last launch left in L2 (each walks on from where the last one stopped), lines
// that L2 still holds from when they were written, the translation of addresses, which is part of it where pages
// change: see dram-near-pages and dram-far-pages.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
dram(Clocks *clocks, u32 iterations, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    chase_on<ThroughL1, UNROLL>(clocks, iterations, walk, chain, bytes, stride);
}
