// How many bytes a miss brings into L2 from DRAM: one sector of 32 bytes, or more.
// Mechanism: one warp walks past L1 along a cycle of nodes `stride` bytes apart, shuffled within windows of 4 KiB,
// through a buffer larger than L2. While two nodes come in one piece, the second of them hits.
// Formula: cycles per load = hit + (miss - hit) * stride / piece, up to the piece; from there on all loads miss.
// What would make it lie: lines that an earlier launch left in L2 (each walks on from where the last one stopped), a
// limit of the fetch granularity that the driver has set.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
l2_fetch(Clocks *clocks, u32 iterations, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    chase_on<PastL1, UNROLL>(clocks, iterations, walk, chain, bytes, stride);
}
