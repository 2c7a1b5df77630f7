// Cycles from an INT32 logic operation to the next that needs its result.
// Mechanism: one warp runs one chain of x = (x & y) ^ a, y the link before x, a and b in turn; nothing else is there to
// issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: logic of the same three operands, which ptxas merges; the jump of the loop, which costs some
// cycles per 240 links.
#define ENTRY lop3_latency
#define OPERATION lop3
#define VALUE u32
#include "latency.cuh"
