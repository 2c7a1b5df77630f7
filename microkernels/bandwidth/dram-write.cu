// Bytes per second that all SMs together write to DRAM.
// Mechanism: the grid walks over a buffer far larger than L2. Each thread stores DEPTH elements of WIDTH bytes per
// step; a warp fills whole lines, so that nothing is read. At the end the walk begins again.
// Formula: WIDTH * DEPTH bytes * threads * iterations / time.
// What would make it lie: what stays in L2 at the end (the slope over iterations takes it out, a single time would
// not), partly filled sectors, stores of constants that the memory compresses, 16-byte stores where 32 are needed
// (B300).
#include "vector.cuh"
#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
dram_write(Clocks *clocks, u32 iterations, char *destination, u64 bytes) {
    const Vector<WIDTH> value = own_words<WIDTH>();
    GridWalk walk(bytes, BLOCK * DEPTH * WIDTH, threadIdx.x * WIDTH);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) store(destination + walk.at + k * BLOCK * WIDTH, value);
        walk.next();
    }
    end(clocks, start);
}
