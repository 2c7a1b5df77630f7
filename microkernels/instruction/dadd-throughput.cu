// FP64 additions that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x + a; enough warps hide the latency.
// Formula: 1 FLOP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a product line with most FP64 units disabled is measured as it is; a clock that changes while
// it runs.
#define ENTRY dadd_throughput
#define OPERATION dadd
#define VALUE double
#include "throughput.cuh"
