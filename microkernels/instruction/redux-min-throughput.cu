// Minima over a warp (one result per lane) that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = the smallest x of the warp; enough warps hide the
// latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: the move from the uniform register into which it writes, one per minimum; a clock that
// changes while it runs.
#define ENTRY redux_min_throughput
#define OPERATION redux_min
#define VALUE u32
#include "throughput.cuh"
