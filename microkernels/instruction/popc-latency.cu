// Cycles from a population count to the next that needs its result.
// Mechanism: one warp runs one chain of x = bits set in x; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 64 links.
#define ENTRY popc_latency
#define OPERATION popc
#define VALUE u32
#include "latency.cuh"
