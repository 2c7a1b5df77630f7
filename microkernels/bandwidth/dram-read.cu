// Bytes per second that all SMs together read from DRAM.
// Mechanism: the warps walk over a buffer far larger than L2, with DEPTH independent loads of WIDTH bytes per thread in
// flight, and fold what they load into a xor. Static: the grid walks side by side, every block has the same share.
// Dynamic: each warp draws the next TICKET consecutive bytes from a counter.
// Formula: TICKET bytes * warps * iterations / time, with either schedule.
// What would make it lie: a buffer that L2 holds in part, too few bytes in flight, dead or merged loads, other widths;
// Static: SMs that get less than others and are waited for; Dynamic: tickets so small that warps wait for the counter.
// Without the 1 in the launch bounds the compiler saves registers: it waits for each two loads before it makes the
// next.
#include "schedule.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
dram_read(Clocks *clocks, u32 iterations, u32 *sink, const char *buffer, u64 bytes) {
    SCHEDULE<GridWalk> work(bytes, iterations);
    Vector<WIDTH> sum = own_words<WIDTH>();
    const Stamp start = begin();
    work.run([&](u64 at) {
        Vector<WIDTH> value[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) load(value[k], buffer + at + k * work.step);
        fold(sum, value);
    });
    end(clocks, start);
    work.finish();
    keep(sink, folded(sum));
}
