// Cycles from a shuffle to the next that needs its result.
// Mechanism: one warp runs one chain of x = the x of lane (a ^ lane); nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: a lane that the compiler knows; the jump of the loop, which costs some cycles per 64 links.
#define ENTRY shfl_latency
#define OPERATION shfl
#define VALUE u32
#include "latency.cuh"
