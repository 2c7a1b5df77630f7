// Cycles from issuing a bulk copy (TMA) of SIZE bytes from L2 until a warp knows that it is in shared memory.
// Mechanism: one warp on the whole GPU has one copy in flight; it waits for it, and only then starts the next.
// Formula: cycles / iterations. A line: the latency of an empty copy, and cycles per KiB.
// What would make it lie: copies that never came (what came last is compared with the source), a buffer that L2 does
// not hold, the time that the wait takes to notice (it is part of the result, as in any program).
#include "bulk.cuh"

extern "C" __global__ void __launch_bounds__(32)
tma_latency(Clocks *clocks, u32 iterations, u32 *sink, const char *source, u64 bytes) {
    time_ring(clocks, iterations, sink, source, bytes, SIZE);
}
