// Cycles from an FP64 addition to the next that needs its result.
// Mechanism: one warp runs one chain of x = x + a; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 64 links.
#define ENTRY dadd_latency
#define OPERATION dadd
#define VALUE double
#include "latency.cuh"
