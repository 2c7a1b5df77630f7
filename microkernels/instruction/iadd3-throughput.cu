// INT32 additions of three numbers that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x + y - a, y from another chain; enough warps hide the
// latency.
// Formula: 1 OP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: equal sums that the compiler folds into one; additions of two, which it spreads over two
// pipes (IMAD.IADD). An instruction counts as one operation; a clock that changes while it runs.
#define ENTRY iadd3_throughput
#define OPERATION iadd3
#define VALUE u32
#include "throughput.cuh"
