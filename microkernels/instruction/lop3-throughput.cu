// INT32 logic operations of three operands that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = (x & y) ^ a, y from another chain; enough warps hide
// the latency.
// Formula: 1 OP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: logic of the same three operands, which ptxas merges whatever is volatile. An instruction
// counts as one operation; a clock that changes while it runs.
#define ENTRY lop3_throughput
#define OPERATION lop3
#define VALUE u32
#include "throughput.cuh"
