// How much L2 and its nearer partition hold, and how long its lines are.
// Mechanism: the warp loads every node of a buffer of `size` bytes and then walks on in a random cycle, from where the
// last launch stopped. The cycle is random within windows of 2 MiB, a page, and goes through one window after the
// other: an address needs a new translation once for 16384 lines, at all sizes, while the next visit of a line still
// comes after all other lines, so that the edge is where it is without windows. L1 is as small as shared memory can
// make it.
// Formula: the sizes at which the curve of cycles per load leaves a plateau: the nearer partition, then the whole. The
// edge at a stride of 384 bytes lies at capacity * 384 / line.
// What would make it lie: rows of DRAM that stay open for a window (the last plateau is lower than dram, its edge is
// where it was), at 384 bytes windows that end within a page (an address in two pages by turns at most), a walk that
// goes over the same lines at each launch, compression, a part of L2 set aside for persisting data.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
l2_capacity(Clocks *clocks, u32 iterations, u32 *sink, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    touch<ThroughL1>(global_address(chain), bytes, stride, sink);
    chase_on<ThroughL1, UNROLL>(clocks, iterations, walk, chain, bytes, stride);
}
