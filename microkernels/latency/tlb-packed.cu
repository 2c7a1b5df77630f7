// The control of tlb: as many lines, side by side.
// Mechanism: one warp walks a random cycle of 8 to 32768 lines in at most 4 MiB, past L1, as tlb does over 64 GiB.
// Formula: cycles / (UNROLL * iterations) for each size; the n-th size has as many lines as tlb's n-th span.
// What would make it lie: an L2 smaller than 4 MiB; a curve that is not flat says that tlb's steps are those of a
// cache.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
tlb_packed(Clocks *clocks, u32 iterations, u32 *sink, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    const u64 first = global_address(chain);
    go_round<PastL1>(first, bytes, stride, sink);
    chase<PastL1, UNROLL>(clocks, iterations, walk, first);
}
