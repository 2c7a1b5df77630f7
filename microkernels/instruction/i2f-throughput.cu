// Conversions of INT32 to FP32 that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = float(x), the bits taken as INT32 again; enough warps
// hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a clock that changes while it runs. The limit is the issue rate, which it need not reach.
#define ENTRY i2f_throughput
#define OPERATION i2f
#define VALUE u32
#include "throughput.cuh"
