// Conversions of FP32 to FP64 that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = double(lower half of x); enough warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a product line with most FP64 units disabled is measured as it is; a clock that changes while
// it runs.
#define ENTRY f32_to_f64_throughput
#define OPERATION f32_to_f64
#define VALUE double
#include "throughput.cuh"
