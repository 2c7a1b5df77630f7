// Bytes per second between DRAM and all SMs in a = b + s * c: two streams in, one out.
// Mechanism: the grid walks over three buffers far larger than L2. Each thread loads DEPTH independent elements of
// WIDTH bytes of both sources, multiplies and adds their floats, and stores. At the end the walk begins again.
// Formula: 3 * WIDTH * DEPTH bytes * threads * iterations / time; the write needs no read, since whole lines are
// written.
// What would make it lie: loads that wait for stores, what L2 holds, streams that fall on the same banks.
#include "vector.cuh"
#include "walk.cuh"

__device__ __forceinline__ Vector<WIDTH> triad(const Vector<WIDTH> &b, float s, const Vector<WIDTH> &c) {
    Vector<WIDTH> sum;
#pragma unroll
    for (int i = 0; i < WIDTH / 4; ++i)
        sum.word[i] = __float_as_uint(fmaf(s, __uint_as_float(c.word[i]), __uint_as_float(b.word[i])));
    return sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
dram_triad(Clocks *clocks, u32 iterations, char *a, const char *b, const char *c, u64 bytes, float s) {
    GridWalk walk(bytes, BLOCK * DEPTH * WIDTH, threadIdx.x * WIDTH);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        Vector<WIDTH> left[DEPTH], right[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) {
            load(left[k], b + walk.at + k * BLOCK * WIDTH);
            load(right[k], c + walk.at + k * BLOCK * WIDTH);
        }
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) store(a + walk.at + k * BLOCK * WIDTH, triad(left[k], s, right[k]));
        walk.next();
    }
    end(clocks, start);
}
