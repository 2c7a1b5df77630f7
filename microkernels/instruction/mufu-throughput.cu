// Special functions that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = f(x); enough warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: subnormal numbers, which need further instructions without .ftz; inverse functions in a row,
// which ptxas cancels out. The sine contains the multiplication that brings its argument into turns; a clock that
// changes while it runs.
#define ENTRY mufu_throughput
#define OPERATION mufu::FUNCTION
#define VALUE float
#include "throughput.cuh"
