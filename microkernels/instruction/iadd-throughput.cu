// INT32 additions of two numbers that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x + y, y from another chain; enough warps hide the
// latency.
// Formula: 1 OP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: equal sums that the compiler folds into one. Before sm_120 there is no IADD: ptxas spreads
// such sums over two pipes (IADD3 and IMAD.IADD), so this is for sm_120 and 121 alone; there older compilers write IADD3
// with a zero, which may be slower. A clock that changes while it runs.
#define ENTRY iadd_throughput
#define OPERATION iadd
#define VALUE u32
#include "throughput.cuh"
