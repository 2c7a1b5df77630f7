// Conversions of FP32 to INT32 that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = int(x), the bits taken as FP32 again; enough warps hide
// the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a value whose conversion the compiler knows; a clock that changes while it runs. The limit is
// the issue rate, which it need not reach.
#define ENTRY f2i_throughput
#define OPERATION f2i
#define VALUE u32
#include "throughput.cuh"
