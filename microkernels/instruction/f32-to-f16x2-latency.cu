// Cycles from a conversion of two FP32 to a pair of FP16 to the next that needs its result.
// Mechanism: one warp runs one chain of x = (half(a), half(x)); nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 240 links.
#define ENTRY f32_to_f16x2_latency
#define OPERATION f32_to_f16x2
#define VALUE u32
#include "latency.cuh"
