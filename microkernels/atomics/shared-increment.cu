// Increments of shared memory that one SM completes per clock: what a histogram does.
// Mechanism: as shared-atom, but every operand is the constant one, for which the hardware has an instruction of its
// own.
// Formula: UNROLL operations * threads * iterations / cycles.
// What would make it lie: an operand that the compiler does not know, which makes it shared-atom.
#include "operation.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
shared_increment(Clocks *clocks, u32 iterations, u32 *cells, u32 per_warp, u32 common) {
    extern __shared__ u32 own[];
    own[threadIdx.x] = 0;
    const u32 address = (u32)__cvta_generic_to_shared(own + cell_of(threadIdx.x, per_warp, common));
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step)
            asm volatile("red.shared.add.u32 [%0], 1;" : : "r"(address) : "memory");
    }
    end(clocks, start);
    reduce((u64)__cvta_generic_to_global(cells + blockIdx.x * blockDim.x + threadIdx.x), own[threadIdx.x]);
}
