// Dot products of four 8-bit integers that one SM completes per clock.
// Mechanism: every thread runs CHAINS independent chains of x = x · a + b; enough warps hide the latency.
// Formula: 1 result (4 multiplications, 4 additions) * CHAINS * UNROLL * threads * iterations / cycles.
// What would make it lie: a chip that does it in several instructions; a clock that changes while it runs. The limit is
// the issue rate, which it need not reach.
#define ENTRY dp4a_throughput
#define OPERATION dp4a
#define VALUE u32
#include "throughput.cuh"
