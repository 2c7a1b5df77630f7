// Bytes that one SM reads from its shared memory per clock, with loads of WIDTH bytes and without bank conflicts.
// Mechanism: the warps of a block walk through the same 16 KiB; the lanes of a load are side by side, so that 4 bytes
// take one wavefront, 8 two and 16 four. UNROLL loads per iteration are independent.
// Formula: WIDTH * UNROLL bytes * threads of an SM * iterations / cycles.
// What would make it lie: loads that the compiler merges (32 equal volatile PTX loads become one; here the addresses
// change), too few warps, bank conflicts.
#include "vector.cuh"
#include "window.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1)
shared_read(Clocks *clocks, u32 iterations, u32 *sink, const u32 *source) {
    __shared__ __align__(16) u32 memory[WINDOW / 4];
    for (u32 i = threadIdx.x; i < WINDOW / 4; i += blockDim.x) memory[i] = source[i];
    const u32 base = __cvta_generic_to_shared(memory);
    Window window(WIDTH, 32 * WIDTH * UNROLL);
    Vector<WIDTH> sum = own_words<WIDTH>();
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        Vector<WIDTH> value[UNROLL];
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) load_shared(value[k], base + window.at + k * 32 * WIDTH);
        fold(sum, value);
        window.next(32 * WIDTH * UNROLL);
    }
    end(clocks, start);
    keep(sink, folded(sum));
}
