// Searches for equal values in a warp (one result per lane) that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = the lanes with the same x; enough warps hide the
// latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: fewer than 32 different values per warp, which is faster: each lane here finds itself alone
// and so keeps a value of its own; a clock that changes while it runs.
#define ENTRY match_any_throughput
#define OPERATION match_any
#define VALUE u32
#include "throughput.cuh"
