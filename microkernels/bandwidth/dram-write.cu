// Bytes per second that all SMs together write to DRAM.
// Mechanism: the warps walk over a buffer far larger than L2. Each thread stores DEPTH elements of WIDTH bytes per turn;
// a warp fills whole lines, so that nothing is read. Static: the grid walks side by side, every block has the same
// share. Dynamic: each warp draws the next TICKET consecutive bytes from a counter.
// Formula: TICKET bytes * warps * iterations / time, with either schedule.
// What would make it lie: what stays in L2 at the end (the slope over iterations takes it out, a single time would
// not), partly filled sectors, stores of constants that the memory compresses, 16-byte stores where 32 are needed
// (B300); Static: SMs that get less than others and are waited for.
#include "schedule.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
dram_write(Clocks *clocks, u32 iterations, char *destination, u64 bytes) {
    const Vector<WIDTH> value = own_words<WIDTH>();
    SCHEDULE<GridWalk> work(bytes, iterations);
    const Stamp start = begin();
    work.run([&](u64 at) {
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) store(destination + at + k * work.step, value);
    });
    end(clocks, start);
    work.finish();
}
