// Cycles of a memory fence, by scope, with and without a store that it must wait for.
// Mechanism: one warp stores a word of its own (STORES is 1) and executes a fence, UNROLL times an iteration.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: fences that the compiler joins or leaves out, stores to one line by several SMs.
#include "probe.cuh"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

extern "C" __global__ void __launch_bounds__(32)
fence(Clocks *clocks, u32 iterations, u32 *words) {
    const u64 address = (u64)__cvta_generic_to_global(words + threadIdx.x);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) {
            if (STORES) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(address), "r"(i) : "memory");
            asm volatile(TEXT(FENCE) ";" : : : "memory");
        }
    }
    end(clocks, start);
}
