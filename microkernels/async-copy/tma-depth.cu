// Bytes per second that bulk copies (TMA) move from L2 into the shared memory of all SMs, against the copies in flight.
// Mechanism: one warp per SM keeps DEPTH copies of SIZE bytes in flight, each completing on a barrier of its own in
// shared memory; it waits for the oldest and puts the next in its place. The blocks walk through a buffer that L2
// holds.
// Formula: SIZE * DEPTH bytes * blocks * iterations / time; in flight per SM are SIZE * DEPTH bytes. The bandwidth is
// min(peak, in flight * SMs / latency).
// What would make it lie: copies that never came (what came last is compared with the source), equal reads of several
// SMs that L2 answers once, more than one block on an SM.
#include "bulk.cuh"

extern "C" __global__ void __launch_bounds__(32)
tma_depth(Clocks *clocks, u32 iterations, u32 *sink, const char *source, u64 bytes) {
    time_ring(clocks, iterations, sink, source, bytes, SIZE);
}
