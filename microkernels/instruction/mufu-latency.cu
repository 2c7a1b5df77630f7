// Cycles from a special function to the next that needs its result.
// Mechanism: one warp runs one chain of x = f(x); nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: subnormal numbers, which need further instructions without .ftz; inverse functions in a row,
// which ptxas cancels out. The sine contains the multiplication that brings its argument into turns; the jump of the
// loop, which costs some cycles per 64 links.
#define ENTRY mufu_latency
#define OPERATION mufu::FUNCTION
#define VALUE float
#include "latency.cuh"
