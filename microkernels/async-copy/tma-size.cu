// Bytes per second that bulk copies (TMA) move from L2 into the shared memory of all SMs, against the size of a copy.
// Mechanism: one warp per block keeps DEPTH copies of `size` bytes in flight, each completing on a barrier of its own
// in shared memory; it waits for the oldest and puts the next in its place. The blocks walk through a buffer that L2
// holds.
// Formula: size * DEPTH bytes * blocks * iterations / time. Small copies are bound by their issue, large ones by bytes.
// What would make it lie: copies that never came (what came last is compared with the source), equal reads of several
// SMs that L2 answers once, too few bytes in flight.
#include "bulk.cuh"

extern "C" __global__ void __launch_bounds__(32)
tma_size(Clocks *clocks, u32 iterations, u32 *sink, const char *source, u64 bytes, u32 size) {
    time_ring(clocks, iterations, sink, source, bytes, size);
}
