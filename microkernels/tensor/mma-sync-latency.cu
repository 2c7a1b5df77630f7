// Cycles from one mma.sync to the next that adds to its result.
// Mechanism: one warp has one sum, and REPEAT instructions an iteration add to it, each waiting for the one before.
// Formula: cycles / (REPEAT · iterations).
// What would make it lie: two sums in turn (the gate follows the registers), an emulated type (left out); and where an
// instruction takes D late, the chain shows the time from D to D, which is less than that from A and B to D.
#include "mma-types.cuh"

extern "C" __global__ void __launch_bounds__(32, 1)
mma_sync_latency(Clocks *clocks, u32 iterations, const TYPE::Word *a, const TYPE::Word *b, TYPE::Result *d) {
    multiply<TYPE>(clocks, iterations, a, b, d);
}
