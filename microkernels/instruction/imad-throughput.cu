// INT32 multiply-adds that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x * a + b; enough warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: IMAD that only moves or adds (IMAD.MOV, IMAD.IADD); a factor that is a power of two; a clock
// that changes while it runs.
#define ENTRY imad_throughput
#define OPERATION imad
#define VALUE u32
#include "throughput.cuh"
