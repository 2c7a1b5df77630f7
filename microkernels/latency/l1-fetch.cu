// How many bytes a miss brings into L1: the sector.
// Mechanism: one warp walks a large cycle of nodes `stride` bytes apart, shuffled within windows of 4 KiB. While two
// nodes share a sector, the second of them hits.
// Formula: cycles per load = hit + (miss - hit) * stride / sector, up to the sector; from there on all loads miss.
// What would make it lie: a cycle that L1 holds in part, L2 misses in between (all lines are loaded into L2 first), a
// walk in the order of the addresses, which would show prefetches.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
l1_fetch(Clocks *clocks, u32 iterations, u32 *sink, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    const u64 first = global_address(chain);
    touch<PastL1>(first, bytes, stride, sink);
    chase<ThroughL1, UNROLL>(clocks, iterations, walk, first);
}
