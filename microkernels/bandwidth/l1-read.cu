// Bytes that one SM reads from its L1 per clock, with loads of WIDTH bytes.
// Mechanism: all warps walk through the same 16 KiB, which L1 holds; the lanes of a load are side by side. The loads
// are weak, as C makes them. UNROLL of them per iteration are independent.
// Formula: WIDTH * UNROLL bytes * threads of an SM * iterations / cycles.
// What would make it lie: loads that the compiler merges or takes out of the loop (the addresses change), loads with a
// scope (`ld.global.ca` in PTX is one), misses, too few warps. GA10x and Ada give 64 bytes per clock for 4 and 8 byte
// loads.
#include "vector.cuh"
#include "window.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
l1_read(Clocks *clocks, u32 iterations, u32 *sink, const char *buffer) {
    Window window(WIDTH, 32 * WIDTH * UNROLL);
    Vector<WIDTH> sum = own_words<WIDTH>();
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        Vector<WIDTH> value[UNROLL];
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) load(value[k], buffer + window.at + k * 32 * WIDTH);
        fold(sum, value);
        window.next(32 * WIDTH * UNROLL);
    }
    end(clocks, start);
    keep(sink, folded(sum));
}
