// Cycles from a global load that hits L2 to its value, by weak and by strong loads.
// Mechanism: one warp walks a random cycle through a quarter of L2. Weak loads, as C makes them, miss L1, which is as
// small as shared memory can make it; strong loads (LOADS is PastL1) pass by it, and must see what other SMs have
// written, so that a copy in the nearer partition may not do.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: hits in L1, misses in L2 or in the translation of addresses (all nodes are loaded before), an
// SM that is no typical one (see l2-map).
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
l2(Clocks *clocks, u32 iterations, u32 *sink, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    const u64 first = global_address(chain);
    touch<LOADS>(first, bytes, stride, sink);
    chase<LOADS, UNROLL>(clocks, iterations, walk, first);
}
