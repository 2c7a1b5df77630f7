// Population counts that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = bits set in x; enough warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a clock that changes while it runs. The limit is that of the special functions, which share
// the unit; where that is not known, the issue rate.
#define ENTRY popc_throughput
#define OPERATION popc
#define VALUE u32
#include "throughput.cuh"
