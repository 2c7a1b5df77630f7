// Cycles of a load that DRAM answers, where its address is translated without a miss.
// Mechanism: the cycle is random within windows of 2 MiB, a page, and goes through one window after the other: 16384
// loads in each page.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: lines that the last launch left in L2 (each walks on from where the last one stopped), lines
// that L2 still holds from when they were written, rows of DRAM that stay open for a window.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
dram_near_pages(Clocks *clocks, u32 iterations, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    chase_on<ThroughL1, UNROLL>(clocks, iterations, walk, chain, bytes, stride);
}
