// Pairs of FP32 fused multiply-adds in one instruction that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x * a + b on both halves of a 64-bit register; enough
// warps hide the latency.
// Formula: 4 FLOP * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a target without the instruction, where ptxas makes two FFMA of it (the gate says emulated);
// a clock that changes while it runs.
#define ENTRY ffma2_throughput
#define OPERATION ffma2
#define VALUE u64
#include "throughput.cuh"
