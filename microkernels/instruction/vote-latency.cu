// Cycles from a vote (predicate to predicate) to the next that needs its result.
// Mechanism: one warp runs one chain of p = any lane has p; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: predicates that go through registers: at the ends of the loop, once per 240 votes, they do;
// the jump of the loop, which costs some cycles per 240 links.
#define ENTRY vote_latency
#define OPERATION vote
#define VALUE u32
#include "latency.cuh"
