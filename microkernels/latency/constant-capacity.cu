// How much each level of the constant caches holds.
// Mechanism: one warp walks cycles of 64-byte lines of 512 bytes to 64 KiB of constant memory.
// Formula: the sizes at which the curve of cycles per load leaves a plateau.
// What would make it lie: the kernel's arguments and the code lie in some of the same caches; sizes between those of
// the table are rounded up.
#include "constants.cuh"

extern "C" __global__ void __launch_bounds__(64)
constant_capacity(Clocks *clocks, u32 iterations, u32 *sink, u32 size) {
    chase_constants<UNROLL>(clocks, iterations, sink, size);
}
