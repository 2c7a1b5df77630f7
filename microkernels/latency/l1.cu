// Cycles from a global load that hits L1 to its value.
// Mechanism: one warp walks a random cycle of addresses that L1 holds; each load's value is the next load's address.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations; no clock is read on the way.
// What would make it lie: loads that pass by L1 (ld.global.ca is a strong load on several architectures), address
// arithmetic in the chain, a cycle larger than L1, a clock read for each load (which has doubled published values).
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
l1(Clocks *clocks, u32 iterations, u32 *sink, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    const u64 first = global_address(chain);
    go_round<ThroughL1>(first, bytes, stride, sink);
    chase<ThroughL1, UNROLL>(clocks, iterations, walk, first);
}
