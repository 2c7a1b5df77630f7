// Cycles from an FP64 fused multiply-add to the next that needs its result.
// Mechanism: one warp runs one chain of x = x * a + b; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: a part with few FP64 units, where a warp occupies the unit longer than the result takes; the
// jump of the loop, which costs some cycles per 64 links.
#define ENTRY dfma_latency
#define OPERATION dfma
#define VALUE double
#include "latency.cuh"
