// Bytes per second that all SMs together read from L2.
// Mechanism: every block walks through the whole buffer, which L2 holds; the blocks begin at different chunks, so that
// all slices are busy and all lines shared. The loads are .cg, which pass L1 by. A thread has DEPTH independent loads.
// Formula: WIDTH * DEPTH bytes * threads * iterations / time.
// What would make it lie: hits in L1 (published B300 values contain 20 to 30 % of them in spite of .cg, hence the
// carve-out that leaves L1 next to nothing), a buffer larger than the partition of L2 that is near, too few bytes in
// flight, an L2 that answers equal reads of several SMs once. L2 has a clock of its own.
#include "vector.cuh"
#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
l2_read(Clocks *clocks, u32 iterations, u32 *sink, const char *buffer, u64 bytes) {
    BlockWalk walk(bytes, BLOCK * DEPTH * WIDTH, threadIdx.x * WIDTH);
    Vector<WIDTH> sum = own_words<WIDTH>();
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        Vector<WIDTH> value[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) load_l2(value[k], buffer + walk.at + k * BLOCK * WIDTH);
        fold(sum, value);
        walk.next();
    }
    end(clocks, start);
    keep(sink, folded(sum));
}
