// Cycles from a conversion of FP32 to FP64 to the next that needs its result.
// Mechanism: one warp runs one chain of x = double(lower half of x); nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 64 links.
#define ENTRY f32_to_f64_latency
#define OPERATION f32_to_f64
#define VALUE double
#include "latency.cuh"
