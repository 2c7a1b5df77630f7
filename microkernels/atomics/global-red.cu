// Atomic additions to global memory without a result that one SM completes per clock, by type and contention.
// Mechanism: all threads of the grid add to cells, UNROLL times an iteration. A warp uses 32, 2 or 1 cells; each warp
// has its own, or the whole grid has them in common. L2 does the additions.
// Formula: UNROLL operations * threads * iterations / cycles.
// What would make it lie: a result that is asked for (ATOM in place of RED), additions that the compiler folds into
// one, operands that it knows, lost additions (the host checks the sum).
#include "operation.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
global_red(Clocks *clocks, u32 iterations, Value *cells, u32 per_warp, u32 common, u32 one) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u64 address = (u64)__cvta_generic_to_global(cells + cell_of(thread, per_warp, common));
    const Operands add = operands(one);
    const Value even = begins_with_second(thread) ? add.second : add.first;
    const Value odd = begins_with_second(thread) ? add.first : add.second;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) reduce(address, step % 2 ? odd : even);
    }
    end(clocks, start);
}
