// Bytes per second that all SMs together read from DRAM and write back to it.
// Mechanism: the grid walks over two buffers far larger than L2. Each thread loads DEPTH independent elements of WIDTH
// bytes, then stores them to the same place of the other buffer. At the end the walk begins again.
// Formula: 2 * WIDTH * DEPTH bytes * threads * iterations / time.
// What would make it lie: loads that wait for the stores between them (too few bytes in flight), what L2 holds, pages
// of source and destination that fall on the same banks; the bus pays for each turn from reading to writing.
#include "vector.cuh"
#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
dram_copy(Clocks *clocks, u32 iterations, const char *source, char *destination, u64 bytes) {
    GridWalk walk(bytes, BLOCK * DEPTH * WIDTH, threadIdx.x * WIDTH);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        Vector<WIDTH> value[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) load(value[k], source + walk.at + k * BLOCK * WIDTH);
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) store(destination + walk.at + k * BLOCK * WIDTH, value[k]);
        walk.next();
    }
    end(clocks, start);
}
