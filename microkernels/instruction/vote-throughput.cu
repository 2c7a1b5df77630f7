// Votes (predicate to predicate) that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of p = any lane has p; enough warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: predicates that go through registers: four comparisons and four selections per 240 votes do;
// a clock that changes while it runs. The limit is the issue rate, which it need not reach.
#define ENTRY vote_throughput
#define OPERATION vote
#define VALUE u32
#include "throughput.cuh"
