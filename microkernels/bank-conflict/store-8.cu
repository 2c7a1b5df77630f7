// Cycles that one SM takes for a shared store of 8 bytes by a warp, against the lanes that share a bank.
// Mechanism: lane l writes element l * ways * 4 / 8, so that `ways` lanes fall on different rows of each bank that is
// used. With 8 bytes 16 lanes are served together, so that 2 lanes share a bank without a conflict: 2 ways are the
// least.
// Formula: cycles of the SM per store = cycles / (warps * UNROLL * iterations) = ways: one wavefront per clock, a line
// through 0.
// What would make it lie: stores that the compiler drops, too few warps, an issue rate below one store per clock, lanes
// that write the same word, of which one is served.
#include "conflict.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1)
store_8(Clocks *clocks, u32 iterations, u32 *sink, u32 ways) {
    time_stores<8>(clocks, iterations, sink, stride_of<8>(ways));
}
