// Compare-and-swap operations on global memory that one SM completes per clock, by width and contention.
// Mechanism: all threads swap zero for zero, which always succeeds, UNROLL times an iteration. A warp uses 32, 2 or 1
// cells; each warp has its own, or the whole grid has them in common.
// Formula: UNROLL operations * threads * iterations / cycles.
// What would make it lie: operands that it moves about for each swap (they lie in a register pair), a result that is
// not used.
#include "operation.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
global_cas(
    Clocks *clocks, u32 iterations, u32 *sink, Value *cells, u32 per_warp, u32 common, u32 zero, u32 other_zero
) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u64 address = (u64)__cvta_generic_to_global(cells + cell_of(thread, per_warp, common));
    const Value expected = zero, value = other_zero;
    u32 seen = 0;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) seen ^= (u32)swap(address, expected, value);
    }
    end(clocks, start);
    keep(sink, seen);
}
