// Cycles from an atomic operation on shared memory to its result, by type.
// Mechanism: one thread adds to one cell, or swaps in it, again and again; what one operation returns is the operand of
// the next. The cell holds zero and stays so. It depends on the thread: for one that all threads share, the compiler
// sums the operands of a warp by shuffles first.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: a result that is not used (the operation then has none), other threads, emulation by a loop,
// which is named as such: only 32-bit additions and swaps are single instructions.
#include "operation.cuh"

extern "C" __global__ void __launch_bounds__(32)
shared_latency(Clocks *clocks, u32 iterations, u32 *sink, u32 zero) {
    __shared__ Value own[32];
    own[threadIdx.x] = zero;
    const u32 address = (u32)__cvta_generic_to_shared(own + threadIdx.x);
    const Value expected = zero;
    Value value = expected;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step)
            value = named("cas") ? swap(address, expected, value) : atom(address, value);
    }
    end(clocks, start);
    keep(sink, (u32)value);
}
