// Cycles of a load that hits L2, for every SM and each of 32 lines: the near and the far partition.
// Mechanism: one block on every SM; its warp loads one line, which holds its own address, again and again past L1. The
// loads are strong: they are answered where the line belongs, not by a copy in the nearer partition.
// Formula: cycles / (UNROLL * iterations) for each block, with the SM that it ran on. Two clusters: near and far.
// What would make it lie: an L2 that serves the many SMs asking for one line more slowly than one (on 132 SMs half a
// load a clock), blocks that share an SM, an SM without a block.
#include "chase.cuh"

constexpr u32 DISTANCE = 4096 + 128;  // another page of the hash over slices, another line of it

extern "C" __global__ void __launch_bounds__(32)
l2_map(Clocks *clocks, u32 iterations, u64 *walk, u64 *lines, u32 line) {
    const u64 address = global_address(lines) + (u64)line * DISTANCE;
    if (PastL1::load(address) != address) asm volatile("st.global.u64 [%0], %0;" : : "l"(address) : "memory");
    __threadfence();
    chase<PastL1, UNROLL>(clocks, iterations, walk, address);
}
