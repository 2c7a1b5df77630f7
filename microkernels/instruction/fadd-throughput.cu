// FP32 additions that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x + a; enough warps hide the latency.
// Formula: 1 FLOP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a compiler that adds with FFMA in turn; two operands in one register bank; a clock that
// changes while it runs.
#define ENTRY fadd_throughput
#define OPERATION fadd
#define VALUE float
#include "throughput.cuh"
