// Cycles from a comparison with the ballot of its predicate to the next that needs its result.
// Mechanism: one warp runs one chain of x = the lanes where x != a; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: it is two instructions, a comparison and a vote; the jump of the loop, which costs some
// cycles per 64 links.
#define ENTRY ballot_latency
#define OPERATION ballot
#define VALUE u32
#include "latency.cuh"
