// Atomic additions to global memory that one SM completes per clock, by scope and order.
// Mechanism: as global-atom with 32-bit integers and cells of each warp's own; the scope is the block, the GPU or the
// system, and with acquire and release a fence stands before each and an invalidation of L1 behind it.
// Formula: UNROLL operations * threads * iterations / cycles.
// What would make it lie: a scope that the compiler narrows, which the gate reads from the opcode.
#include "operation.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
global_scope(Clocks *clocks, u32 iterations, u32 *sink, Value *cells, u32 per_warp, u32 one) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u64 address = (u64)__cvta_generic_to_global(cells + cell_of(thread, per_warp, 0));
    const Operands add = operands(one);
    u32 seen = 0;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) seen ^= (u32)atom(address, step % 2 ? add.second : add.first);
    }
    end(clocks, start);
    keep(sink, seen);
}
