// Cycles from an INT32 addition of three numbers to the next that needs its result.
// Mechanism: one warp runs one chain of x = x + y - a, y the link before x; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: sums that the compiler folds into one, or makes of IMAD.IADD; the jump of the loop, which
// costs some cycles per 240 links.
#define ENTRY iadd3_latency
#define OPERATION iadd3
#define VALUE u32
#include "latency.cuh"
