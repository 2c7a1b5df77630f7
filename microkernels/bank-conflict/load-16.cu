// Cycles that one SM takes for a shared load of 16 bytes by a warp, against the lanes that share a bank.
// Mechanism: lane l reads element l * ways * 4 / 16, so that `ways` lanes fall on different rows of each bank that is
// used. With 16 bytes 8 lanes are served together, so that 4 lanes share a bank without a conflict: 4 ways are the
// least.
// Formula: cycles of the SM per load = cycles / (warps * UNROLL * iterations) = ways: one wavefront per clock, a line
// through 0.
// What would make it lie: loads that the compiler merges, too few warps, an issue rate below one load per clock (half
// of it bends the line at its beginning; Turing has 16 load lanes), lanes on the same word, which are served together.
#include "conflict.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1)
load_16(Clocks *clocks, u32 iterations, u32 *sink, u32 ways) {
    time_loads<16>(clocks, iterations, sink, stride_of<16>(ways));
}
