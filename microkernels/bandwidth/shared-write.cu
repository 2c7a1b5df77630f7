// Bytes that one SM writes to its shared memory per clock, with stores of WIDTH bytes and without bank conflicts.
// Mechanism: the warps of a block walk through the same 16 KiB; the lanes of a store are side by side, so that 4 bytes
// take one wavefront, 8 two and 16 four.
// Formula: WIDTH * UNROLL bytes * threads of an SM * iterations / cycles.
// What would make it lie: stores that the compiler drops since later ones cover them, too few warps, bank conflicts.
#include "vector.cuh"
#include "window.cuh"

extern "C" __global__ void __launch_bounds__(1024)
shared_write(Clocks *clocks, u32 iterations, u32 *sink) {
    __shared__ __align__(16) u32 memory[WINDOW / 4];
    const u32 base = __cvta_generic_to_shared(memory);
    Window window(WIDTH, 32 * WIDTH * UNROLL);
    const Vector<WIDTH> value = own_words<WIDTH>();
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) store_shared(base + window.at + k * 32 * WIDTH, value);
        window.next(32 * WIDTH * UNROLL);
    }
    end(clocks, start);
    keep(sink, memory[window.at / 4]);
}
