// Conversions of two FP32 to a pair of BF16 that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = (bf16(a), bf16(x)); enough warps hide the latency.
// Formula: 1 result (a pair) * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a clock that changes while it runs. A result is a pair. The limit is the issue rate, which it
// need not reach.
#define ENTRY f32_to_bf16x2_throughput
#define OPERATION f32_to_bf16x2
#define VALUE u32
#include "throughput.cuh"
