// Bytes per second that all SMs together write to L2.
// Mechanism: every block walks through the whole buffer, of which L2 holds all lines, dirty; the blocks begin at
// different chunks. L2 writes back on eviction only, and nothing is evicted. A warp fills whole lines, so that nothing
// is read.
// Formula: WIDTH * DEPTH bytes * threads * iterations / time.
// What would make it lie: lines that are evicted (a buffer too large), partly filled sectors, too few stores in flight,
// partitions that must agree on a line that both write.
#include "vector.cuh"
#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
l2_write(Clocks *clocks, u32 iterations, char *buffer, u64 bytes) {
    BlockWalk walk(bytes, BLOCK * DEPTH * WIDTH, threadIdx.x * WIDTH);
    const Vector<WIDTH> value = own_words<WIDTH>();
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) store(buffer + walk.at + k * BLOCK * WIDTH, value);
        walk.next();
    }
    end(clocks, start);
}
