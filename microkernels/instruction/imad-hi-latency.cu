// Cycles from the upper half of an INT32 product to the next that needs its result.
// Mechanism: one warp runs one chain of the upper half of x * a; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 64 links.
#define ENTRY imad_hi_latency
#define OPERATION imad_hi
#define VALUE u32
#include "latency.cuh"
