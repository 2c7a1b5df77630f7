// Ballots, with the comparison that makes the predicate, that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = the lanes where x != a; enough warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: the comparison shares the pipe: a ballot of a predicate that is there already is faster; a
// clock that changes while it runs. The limit is the issue rate, which it need not reach.
#define ENTRY ballot_throughput
#define OPERATION ballot
#define VALUE u32
#include "throughput.cuh"
