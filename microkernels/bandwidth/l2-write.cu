// Bytes per second that all SMs together write to L2.
// Mechanism: the warps walk through a buffer of which L2 holds all lines, dirty, again and again. L2 writes back on
// eviction only, and nothing is evicted. A warp fills whole lines, so that nothing is read. Static: every block walks
// through the whole buffer, the blocks begin at different places. Dynamic: each warp draws the next TICKET consecutive
// bytes from a counter.
// Formula: TICKET bytes * warps * iterations / time, with either schedule.
// What would make it lie: lines that are evicted (a buffer too large), partly filled sectors, too few stores in flight,
// partitions that must agree on a line that both write; Static: SMs that get less than others and are waited for;
// Dynamic: the counter lies in one slice, which has one addition for each TICKET bytes on top of its share of them.
#include "schedule.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
l2_write(Clocks *clocks, u32 iterations, char *buffer, u64 bytes) {
    const Vector<WIDTH> value = own_words<WIDTH>();
    SCHEDULE<BlockWalk> work(bytes, iterations);
    const Stamp start = begin();
    work.run([&](u64 at) {
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) store(buffer + at + k * work.step, value);
    });
    end(clocks, start);
    work.finish();
}
