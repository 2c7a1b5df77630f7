// Maxima of a sum and a number (signed) that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = max(x + y, a), y from another chain; enough warps hide
// the latency.
// Formula: 1 OP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a target without the instruction, where it is an addition and a maximum (the gate says
// emulated). An instruction counts as one operation; a clock that changes while it runs.
#define ENTRY viaddmnmx_throughput
#define OPERATION viaddmnmx
#define VALUE u32
#include "throughput.cuh"
