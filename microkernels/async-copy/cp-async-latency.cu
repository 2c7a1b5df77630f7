// Cycles from issuing a cp.async of SIZE bytes per lane until a warp knows that it is in shared memory.
// Mechanism: one warp copies, waits for its copy, and only then copies again. `cg` takes the bytes from L2; `ca` from
// L1, where all but the first round find them.
// Formula: cycles / (UNROLL * iterations).
// What would make it lie: copies that overlap (each is waited for), a buffer that is evicted, a clock read in the loop.
#include "copy.cuh"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern "C" __global__ void __launch_bounds__(32)
cp_async_latency(Clocks *clocks, u32 iterations, u32 *sink, const char *source) {
    __shared__ __align__(16) char ring[UNROLL][32 * SIZE];
    const u32 to = shared_address(ring) + threadIdx.x * SIZE;
    const char *const from = source + threadIdx.x * SIZE;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) {
            asm volatile("cp.async." TEXT(HINT) ".shared.global [%0], [%1], %2;"
                         : : "r"(to + k * 32 * SIZE), "l"(from + k * 32 * SIZE), "n"(SIZE) : "memory");
            asm volatile("cp.async.commit_group;" : : : "memory");
            asm volatile("cp.async.wait_group 0;" : : : "memory");
        }
    }
    end(clocks, start);
    compare(sink, ring, source, UNROLL * 32 * SIZE);
}
