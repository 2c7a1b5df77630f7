// Pairs of FP16 fused multiply-adds that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x * a + b on both halves of a register; enough warps
// hide the latency.
// Formula: 4 FLOP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: multipliers that become 1 or 0 in FP16. On sm_80, 87 and 90 ptxas takes HFMA2 and HFMA2.MMA
// in turn, two pipes, and only so is the full rate reached; a clock that changes while it runs.
#define ENTRY hfma2_throughput
#define OPERATION hfma2
#define VALUE u32
#include "throughput.cuh"
