// Upper halves of INT32 products that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of the upper half of x * a; enough warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a factor that is a power of two, which becomes a shift; a clock that changes while it runs.
#define ENTRY imad_hi_throughput
#define OPERATION imad_hi
#define VALUE u32
#include "throughput.cuh"
