// Cycles from an FP32 fused multiply-add to the next that needs its result.
// Mechanism: one warp runs one chain of x = x * a + b; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 240 links.
#define ENTRY ffma_latency
#define OPERATION ffma
#define VALUE float
#include "latency.cuh"
