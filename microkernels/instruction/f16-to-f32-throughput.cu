// Conversions of FP16 to FP32 that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = float(upper half of x); enough warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: it is an addition to zero on the FP16 pipe, not a conversion instruction; a clock that
// changes while it runs. The limit is the issue rate, which it need not reach.
#define ENTRY f16_to_f32_throughput
#define OPERATION f16_to_f32
#define VALUE u32
#include "throughput.cuh"
