// How much L1 holds, and how long its lines are.
// Mechanism: one warp walks a random cycle of nodes `stride` bytes apart that fills `size` bytes, once to warm up, then
// timed. Beyond the capacity, loads miss and the cycles per load rise.
// Formula: the capacity is the size at which the curve leaves its first plateau. Nodes further apart than a line leave
// parts of the lines' span unused: the edge moves out to capacity * stride / line, which gives the line.
// What would make it lie: shared memory that takes part of L1 (the carve-out asks for none), strides of a power of two
// beyond the line, which fall into few sets (so 160 and 384 bytes), a walk that begins with a cold cache.
#include "chase.cuh"

extern "C" __global__ void __launch_bounds__(32)
l1_capacity(Clocks *clocks, u32 iterations, u32 *sink, u64 *walk, const u64 *chain, u64 bytes, u32 stride) {
    const u64 first = global_address(chain);
    go_round<ThroughL1>(first, bytes, stride, sink);
    chase<ThroughL1, UNROLL>(clocks, iterations, walk, first);
}
