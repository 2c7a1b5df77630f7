// How much L2 and its nearer partition hold, and how long its lines are.
// Mechanism: the warp loads every node of a buffer of `size` bytes and then walks on in a random cycle, from where the
// last launch stopped. L1 is as small as shared memory can make it.
// Formula: the sizes at which the curve of cycles per load leaves a plateau: the nearer partition, then the whole. The
// edge at a stride of 384 bytes lies at capacity * 384 / line.
// What would make it lie: address translation that misses (see tlb), a walk that goes over the same lines at each
// launch, compression, a part of L2 set aside for persisting data.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
l2_capacity(Clocks *clocks, u32 iterations, u32 *sink, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    touch<ThroughL1>(global_address(chain), bytes, stride, sink);
    chase_on<ThroughL1, UNROLL>(clocks, iterations, walk, chain, bytes, stride);
}
