// Cycles from a shared load of 4 bytes to the next that needs it, against the lanes that share a bank.
// Mechanism: lane l reads element l * ways * 4 / 4, so that `ways` lanes fall on different rows of each bank that is
// used. With 4 bytes all 32 lanes are served together: 1 ways are the least. Each element holds its own address, which
// is the next one: one warp, one load at a time.
// Formula: cycles / (UNROLL * iterations) = latency without a conflict + ways - 1: the last wavefront's lanes wait
// longest.
// What would make it lie: an address that is computed between the loads, a second warp on the SM.
#include "conflict.cuh"

extern "C" __global__ void __launch_bounds__(32)
latency_4(Clocks *clocks, u32 iterations, u32 *sink, u32 ways) {
    time_chain<4>(clocks, iterations, sink, stride_of<4>(ways));
}
