// Cycles from a sum over a warp to the next that needs its result.
// Mechanism: one warp runs one chain of x = the sum of x over the warp; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: it contains the move from the uniform register into which it writes; the jump of the loop,
// which costs some cycles per 64 links.
#define ENTRY redux_add_latency
#define OPERATION redux_add
#define VALUE u32
#include "latency.cuh"
