// Bytes per second that cp.async moves from L2 into the shared memory of all SMs, by SIZE of a thread's copy.
// Mechanism: each thread copies SIZE bytes at a time into a ring of STAGES slots and waits for the oldest of STAGES
// copies before it goes on. All blocks walk through a buffer that L2 holds. `cg` passes L1 by; `ca` leaves the line
// there, too.
// Formula: SIZE * STAGES bytes * threads * iterations / time.
// What would make it lie: hits in L1 (the buffer is larger than L1), too few bytes in flight, copies that never came:
// what the last iteration copied is compared with the source.
#include "copy.cuh"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern "C" __global__ void __launch_bounds__(BLOCK)
cp_async(Clocks *clocks, u32 iterations, u32 *sink, const char *source, u64 bytes) {
    __shared__ __align__(16) char ring[STAGES][BLOCK * SIZE];
    Walk walk(bytes, STAGES * BLOCK * SIZE, blockIdx.x, gridDim.x);
    u32 last = 0;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < STAGES; ++k) {
            asm volatile("cp.async." TEXT(HINT) ".shared.global [%0], [%1], %2;"
                         : : "r"(shared_address(ring[k]) + threadIdx.x * SIZE),
                             "l"(source + walk.at + (k * BLOCK + threadIdx.x) * SIZE), "n"(SIZE) : "memory");
            asm volatile("cp.async.commit_group;" : : : "memory");
            asm volatile("cp.async.wait_group %0;" : : "n"(STAGES - 1) : "memory");
        }
        last = walk.at;
        walk.next();
    }
    asm volatile("cp.async.wait_group 0;" : : : "memory");
    end(clocks, start);
    compare(sink, ring, source + last, STAGES * BLOCK * SIZE);
}
