// FP32 multiplications that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x * a; enough warps hide the latency.
// Formula: 1 FLOP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a multiplier that the compiler knows to be a power of two; two operands in one register bank;
// a clock that changes while it runs.
#define ENTRY fmul_throughput
#define OPERATION fmul
#define VALUE float
#include "throughput.cuh"
