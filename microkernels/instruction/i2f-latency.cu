// Cycles from a conversion of INT32 to FP32 to the next that needs its result.
// Mechanism: one warp runs one chain of x = float(x), the bits taken as INT32 again; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 64 links.
#define ENTRY i2f_latency
#define OPERATION i2f
#define VALUE u32
#include "latency.cuh"
