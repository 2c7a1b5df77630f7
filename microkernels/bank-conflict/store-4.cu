// Cycles that one SM takes for a shared store of 4 bytes by a warp, against the lanes that share a bank.
// Mechanism: lane l writes element l * ways * 4 / 4, so that `ways` lanes fall on different rows of each bank that is
// used. With 4 bytes all 32 lanes are served together: 1 ways are the least.
// Formula: cycles of the SM per store = cycles / (warps * UNROLL * iterations) = ways: one wavefront per clock, a line
// through 0.
// What would make it lie: stores that the compiler drops, too few warps, an issue rate below one store per clock, lanes
// that write the same word, of which one is served.
#include "conflict.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1)
store_4(Clocks *clocks, u32 iterations, u32 *sink, u32 ways) {
    time_stores<4>(clocks, iterations, sink, stride_of<4>(ways));
}
