// Cycles from a pair of BF16 fused multiply-adds to the next that needs its result.
// Mechanism: one warp runs one chain of x = x * a + b on both halves of a register; nothing else is there to issue.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: on sm_90 ptxas takes HFMA2 and HFMA2.MMA in turn, two pipes: the value is the mean of both
// ways; the jump of the loop, which costs some cycles per 240 links.
#define ENTRY hfma2_bf16_latency
#define OPERATION hfma2_bf16
#define VALUE u32
#include "latency.cuh"
