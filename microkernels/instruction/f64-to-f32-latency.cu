// Cycles from a conversion of FP64 to FP32 to the next that needs its result.
// Mechanism: one warp runs one chain of x = float(x) in the lower half, the upper half kept; nothing else is there to
// issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 64 links.
#define ENTRY f64_to_f32_latency
#define OPERATION f64_to_f32
#define VALUE double
#include "latency.cuh"
