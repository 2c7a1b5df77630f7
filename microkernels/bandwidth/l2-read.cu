// Bytes per second that all SMs together read from L2.
// Mechanism: the warps walk through a buffer that L2 holds, again and again, with DEPTH independent loads of WIDTH bytes
// per thread in flight. Strong loads (.cg) pass L1 by, and see what other SMs have written: where L2 has two partitions,
// they may not use a copy in the nearer one. Weak loads may, as those of most programs do; they ask L1 not to keep what
// they load. Static: every block walks through the whole buffer, the blocks begin at different places, so that all
// slices are busy and all lines shared. Dynamic: each warp draws the next TICKET consecutive bytes from a counter.
// Formula: TICKET bytes * warps * iterations / time, with either schedule.
// What would make it lie: hits in L1. The carve-out leaves L1 some 30 KiB of an SM, against 512 KiB of buffer at least
// and an eighth of L2: of lines in any order L1 could hold 6 %, and 1 % from 24 MiB of L2 on; and between two reads of a
// line by an SM there lie the turns of its other warps, mostly the whole buffer, which no cache of that size outlasts.
// (Published B300 values contain 20 to 30 % of hits in spite of .cg, with a larger L1.) Further: a buffer larger than
// the partition of L2 that is near, too few bytes in flight, an L2 that answers equal reads of several SMs once. L2 has a
// clock of its own. Static: SMs that get less than others and are waited for. Dynamic: the counter lies in one slice,
// which has one addition for each TICKET bytes on top of its share of them.
#include "schedule.cuh"

struct Strong {
    static __device__ __forceinline__ void from(Vector<WIDTH> &value, const char *at) { load_l2(value, at); }
};
struct Weak {
    static __device__ __forceinline__ void from(Vector<WIDTH> &value, const char *at) { load_weak(value, at); }
};

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
l2_read(Clocks *clocks, u32 iterations, u32 *sink, const char *buffer, u64 bytes) {
    SCHEDULE<BlockWalk> work(bytes, iterations);
    Vector<WIDTH> sum = own_words<WIDTH>();
    const Stamp start = begin();
    work.run([&](u64 at) {
        Vector<WIDTH> value[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) LOADS::from(value[k], buffer + at + k * work.step);
        fold(sum, value);
    });
    end(clocks, start);
    work.finish();
    keep(sink, folded(sum));
}
