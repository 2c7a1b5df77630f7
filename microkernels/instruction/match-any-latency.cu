// Cycles from a search for equal values in a warp to the next that needs its result.
// Mechanism: one warp runs one chain of x = the lanes with the same x; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: fewer than 32 different values per warp, which is faster: each lane here finds itself alone
// and so keeps a value of its own.
#define ENTRY match_any_latency
#define OPERATION match_any
#define VALUE u32
#include "latency.cuh"
