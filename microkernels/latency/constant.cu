// Cycles of a load from constant memory by a computed address, at each level of the constant caches.
// Mechanism: one warp walks a cycle of 64-byte lines of constant memory: 1 KiB for the first level, 16 KiB for the
// second, 64 KiB, which is all there is, for what lies behind them.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: the constants that an instruction names itself (c[3][0x10], about 4 cycles) take another way;
// the kernel's arguments lie in the same caches; a level larger than the cycle that is to miss it.
#include "constants.cuh"

extern "C" __global__ void __launch_bounds__(64)
constant(Clocks *clocks, u32 iterations, u32 *sink, u32 size) {
    chase_constants<UNROLL>(clocks, iterations, sink, size);
}
