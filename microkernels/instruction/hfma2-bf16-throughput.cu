// Pairs of BF16 fused multiply-adds that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x * a + b on both halves of a register; enough warps
// hide the latency.
// Formula: 4 FLOP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: multipliers that become 1 or 0 in BF16; a compiler that goes through FP32; a clock that
// changes while it runs.
#define ENTRY hfma2_bf16_throughput
#define OPERATION hfma2_bf16
#define VALUE u32
#include "throughput.cuh"
