// Cycles of a round of arriving at an mbarrier in shared memory and waiting for all to arrive, by threads.
// Mechanism: all THREADS threads of one block arrive and wait for the phase to end, UNROLL times an iteration; with one
// warp it is what one arrival and its wait cost.
// Formula: cycles / (UNROLL * iterations), by the slope over iterations.
// What would make it lie: a count that fewer threads reach, other blocks on the SM.
#include "probe.cuh"

__device__ __forceinline__ bool over(u32 barrier, u64 phase) {
    u32 done;
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
#if __CUDA_ARCH__ >= 900
        "mbarrier.try_wait.shared.b64 done, [%1], %2;\n"
#else
        "mbarrier.test_wait.shared.b64 done, [%1], %2;\n"
#endif
        "selp.u32 %0, 1, 0, done;\n"
        "}"
        : "=r"(done) : "r"(barrier), "l"(phase) : "memory");
    return done;
}

extern "C" __global__ void __launch_bounds__(THREADS)
mbarrier(Clocks *clocks, u32 iterations) {
    __shared__ u64 word;
    const u32 barrier = (u32)__cvta_generic_to_shared(&word);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(barrier), "r"(THREADS) : "memory");
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < UNROLL; ++step) {
            u64 phase;
            asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(phase) : "r"(barrier) : "memory");
            while (!over(barrier, phase)) {}
        }
    }
    end(clocks, start);
}
