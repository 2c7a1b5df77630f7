// Cycles from a global load that misses all caches to its value.
// Mechanism: one warp walks a random cycle of lines through eight times L2.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: lines that the last launch left in L2 (each walks on from where the last one stopped), a
// buffer that L2 holds in part, the translation of addresses, which is part of it where pages change: see
// dram-near-pages and dram-far-pages.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
dram(Clocks *clocks, u32 iterations, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    chase_on<ThroughL1, UNROLL>(clocks, iterations, walk, chain, bytes, stride);
}
