// FP64 fused multiply-adds that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x * a + b; enough warps hide the latency.
// Formula: 2 FLOP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a product line with most FP64 units disabled is measured as it is; a clock that changes while
// it runs.
#define ENTRY dfma_throughput
#define OPERATION dfma
#define VALUE double
#include "throughput.cuh"
