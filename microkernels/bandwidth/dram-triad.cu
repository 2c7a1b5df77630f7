// Bytes per second between DRAM and all SMs in a = b + s * c: two streams in, one out.
// Mechanism: the warps walk over three buffers far larger than L2. Each thread loads DEPTH independent elements of
// WIDTH bytes of both sources, multiplies and adds their floats, and stores. Static: the grid walks side by side, every
// block has the same share. Dynamic: each warp draws the next TICKET consecutive bytes of each from a counter.
// Formula: 3 * TICKET bytes * warps * iterations / time, with either schedule; the write needs no read, since whole
// lines are written.
// What would make it lie: loads that wait for stores, what L2 holds, streams that fall on the same banks; Static: SMs
// that get less than others and are waited for.
#include "schedule.cuh"

__device__ __forceinline__ Vector<WIDTH> triad(const Vector<WIDTH> &b, float s, const Vector<WIDTH> &c) {
    Vector<WIDTH> sum;
#pragma unroll
    for (int i = 0; i < WIDTH / 4; ++i)
        sum.word[i] = __float_as_uint(fmaf(s, __uint_as_float(c.word[i]), __uint_as_float(b.word[i])));
    return sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
dram_triad(Clocks *clocks, u32 iterations, char *a, const char *b, const char *c, u64 bytes, float s) {
    SCHEDULE<GridWalk> work(bytes, iterations);
    const Stamp start = begin();
    work.run([&](u64 at) {
        Vector<WIDTH> left[DEPTH], right[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) {
            load(left[k], b + at + k * work.step);
            load(right[k], c + at + k * work.step);
        }
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) store(a + at + k * work.step, triad(left[k], s, right[k]));
    });
    end(clocks, start);
    work.finish();
}
