// How far the caches of address translation reach.
// Mechanism: one warp walks a random cycle that has one line in each page of 2 MiB of a `span`, past L1. The lines fit
// into L2 (32768 of them at 64 GiB) and lie 2 MiB + 128 bytes apart, so that they spread over its sets.
// Formula: the spans at which the cycles per load leave a plateau; tlb-packed, with as many lines side by side, must
// stay flat.
// What would make it lie: steps of a cache (the packed control shows them), pages of another size than 2 MiB.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
tlb(Clocks *clocks, u32 iterations, u32 *sink, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    const u64 first = global_address(chain);
    go_round<PastL1>(first, bytes, stride, sink);
    chase<PastL1, UNROLL>(clocks, iterations, walk, first);
}
