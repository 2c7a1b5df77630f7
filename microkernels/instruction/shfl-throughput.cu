// Values shuffled between lanes that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = the x of lane (a ^ lane); enough warps hide the
// latency.
// Formula: 1 result * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a lane that the compiler knows, which becomes a broadcast through uniform registers; a clock
// that changes while it runs.
#define ENTRY shfl_throughput
#define OPERATION shfl
#define VALUE u32
#include "throughput.cuh"
