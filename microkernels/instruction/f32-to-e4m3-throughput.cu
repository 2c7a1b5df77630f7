// Conversions of two FP32 to a pair of FP8 (E4M3) that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = e4m3 of (x, a) and of (b, x), one in each half; enough
// warps hide the latency.
// Formula: 2 results (pairs) * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a clock that changes while it runs. A result is a pair, and a link two of them. The limit is
// the issue rate, which it need not reach. NVRTC 13.0 needs a PRMT per chain and iteration to join the halves.
#define ENTRY f32_to_e4m3_throughput
#define OPERATION f32_to_e4m3x4
#define VALUE u32
#include "throughput.cuh"
