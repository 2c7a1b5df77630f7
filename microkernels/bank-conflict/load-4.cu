// Cycles that one SM takes for a shared load of 4 bytes by a warp, against the lanes that share a bank.
// Mechanism: lane l reads element l * ways * 4 / 4, so that `ways` lanes fall on different rows of each bank that is
// used. With 4 bytes all 32 lanes are served together: 1 ways are the least.
// Formula: cycles of the SM per load = cycles / (warps * UNROLL * iterations) = ways: one wavefront per clock, a line
// through 0.
// What would make it lie: loads that the compiler merges, too few warps, an issue rate below one load per clock (half
// of it bends the line at its beginning; Turing has 16 load lanes), lanes on the same word, which are served together.
#include "conflict.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1)
load_4(Clocks *clocks, u32 iterations, u32 *sink, u32 ways) {
    time_loads<4>(clocks, iterations, sink, stride_of<4>(ways));
}
