// Bytes per second that all SMs together read from DRAM and write back to it.
// Mechanism: the warps walk over two buffers far larger than L2. Each thread loads DEPTH independent elements of WIDTH
// bytes, then stores them to the same place of the other buffer. Static: the grid walks side by side, every block has
// the same share. Dynamic: each warp draws the next TICKET consecutive bytes from a counter.
// Formula: 2 * TICKET bytes * warps * iterations / time, with either schedule.
// What would make it lie: loads that wait for the stores between them (too few bytes in flight), what L2 holds, pages
// of source and destination that fall on the same banks; the bus pays for each turn from reading to writing; Static:
// SMs that get less than others and are waited for.
#include "schedule.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
dram_copy(Clocks *clocks, u32 iterations, const char *source, char *destination, u64 bytes) {
    SCHEDULE<GridWalk> work(bytes, iterations);
    const Stamp start = begin();
    work.run([&](u64 at) {
        Vector<WIDTH> value[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) load(value[k], source + at + k * work.step);
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) store(destination + at + k * work.step, value[k]);
    });
    end(clocks, start);
    work.finish();
}
