// Cycles from a shared load of 8 bytes to the next that needs it, against the lanes that share a bank.
// Mechanism: lane l reads element l * ways * 4 / 8, so that `ways` lanes fall on different rows of each bank that is
// used. With 8 bytes 16 lanes are served together, so that 2 lanes share a bank without a conflict: 2 ways are the
// least. Each element holds its own address, which is the next one: one warp, one load at a time.
// Formula: cycles / (UNROLL * iterations) = latency without a conflict + ways - 2: the last wavefront's lanes wait
// longest.
// What would make it lie: an address that is computed between the loads, a second warp on the SM.
#include "conflict.cuh"

extern "C" __global__ void __launch_bounds__(32)
latency_8(Clocks *clocks, u32 iterations, u32 *sink, u32 ways) {
    time_chain<8>(clocks, iterations, sink, stride_of<8>(ways));
}
