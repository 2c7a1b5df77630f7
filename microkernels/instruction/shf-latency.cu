// Cycles from an INT32 funnel shift to the next that needs its result.
// Mechanism: one warp runs one chain of the pair (y, x) shifted left by a, y the link before x; nothing else is there
// to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: the jump of the loop, which costs some cycles per 240 links.
#define ENTRY shf_latency
#define OPERATION shf
#define VALUE u32
#include "latency.cuh"
