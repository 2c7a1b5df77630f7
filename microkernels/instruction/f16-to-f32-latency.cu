// Cycles from a conversion of FP16 to FP32 to the next that needs its result.
// Mechanism: one warp runs one chain of x = float(upper half of x); nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: it is an addition to zero on the FP16 pipe, not a conversion instruction; the jump of the
// loop, which costs some cycles per 240 links.
#define ENTRY f16_to_f32_latency
#define OPERATION f16_to_f32
#define VALUE u32
#include "latency.cuh"
