// Cycles from a dot product of four 8-bit integers to the next that needs its result.
// Mechanism: one warp runs one chain of x = x · a + b; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: a chain through the addend, which may be shorter; the jump of the loop, which costs some
// cycles per 64 links.
#define ENTRY dp4a_latency
#define OPERATION dp4a
#define VALUE u32
#include "latency.cuh"
