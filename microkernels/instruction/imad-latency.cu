// Cycles from an INT32 multiply-add to the next that needs its result.
// Mechanism: one warp runs one chain of x = x * a + b; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: a chain through the addend, which may be shorter; the jump of the loop, which costs some
// cycles per 240 links.
#define ENTRY imad_latency
#define OPERATION imad
#define VALUE u32
#include "latency.cuh"
