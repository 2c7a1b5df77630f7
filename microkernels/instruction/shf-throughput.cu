// INT32 funnel shifts that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of the pair (y, x) shifted left by a, y from another chain;
// enough warps hide the latency.
// Formula: 1 OP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: shifts by a constant, which become multiplications; a clock that changes while it runs.
#define ENTRY shf_throughput
#define OPERATION shf
#define VALUE u32
#include "throughput.cuh"
