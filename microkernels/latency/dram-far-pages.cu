// Cycles of a load that DRAM answers, where the translation of its address misses too.
// Mechanism: the cycle is random through 32 GiB, or four fifths of the card where it has less, so that nearly every
// load needs another page than the last thousands did. Its nodes are 31 lines apart, so that they lie in all sets of
// L2.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: lines that the last launch left in L2 (each walks on from where the last one stopped), lines
// that L2 still holds from when they were written, a reach of the translation caches beyond the buffer (see tlb).
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
dram_far_pages(Clocks *clocks, u32 iterations, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    chase_on<ThroughL1, UNROLL>(clocks, iterations, walk, chain, bytes, stride);
}
