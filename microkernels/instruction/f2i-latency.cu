// Cycles from a conversion of FP32 to INT32 to the next that needs its result.
// Mechanism: one warp runs one chain of x = int(x), the bits taken as FP32 again; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 64 links.
#define ENTRY f2i_latency
#define OPERATION f2i
#define VALUE u32
#include "latency.cuh"
