// Conversions of FP64 to FP32 that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = float(x) in the lower half, the upper half kept; enough
// warps hide the latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a product line with most FP64 units disabled is measured as it is; the moves, of which the
// compiler needs one for some conversions, where the rate comes near to the issue rate; a clock that changes while it
// runs.
#define ENTRY f64_to_f32_throughput
#define OPERATION f64_to_f32
#define VALUE double
#include "throughput.cuh"
