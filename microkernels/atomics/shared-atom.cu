// Atomic additions to shared memory that one SM completes per clock, by type and contention.
// Mechanism: all threads of the block add to and read cells, UNROLL times an iteration. A warp uses 32, 2 or 1 cells;
// each warp has its own, or the block has them in common. Only 32-bit integers are added by the hardware: the others
// are loops of a load, an addition and a compare-and-swap, which the gate calls emulated.
// Formula: UNROLL operations * threads * iterations / cycles.
// What would make it lie: additions of one without a result, which are another instruction (see shared-increment), lost
// additions (the host checks the sum).
#include "operation.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
shared_atom(Clocks *clocks, u32 iterations, u32 *sink, Value *cells, u32 per_warp, u32 common, u32 one) {
    extern __shared__ Value own[];
    own[threadIdx.x] = 0;
    const u32 address = (u32)__cvta_generic_to_shared(own + cell_of(threadIdx.x, per_warp, common));
    const Operands add = operands(one);
    const Value even = begins_with_second(threadIdx.x) ? add.second : add.first;
    const Value odd = begins_with_second(threadIdx.x) ? add.first : add.second;
    u32 seen = 0;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) seen ^= (u32)atom(address, step % 2 ? odd : even);
    }
    end(clocks, start);
    keep(sink, seen);
    reduce((u64)__cvta_generic_to_global(cells + blockIdx.x * blockDim.x + threadIdx.x), own[threadIdx.x]);
}
