// Bytes that the lanes of one SM receive per clock from the constant cache, when all lanes of a warp read one address.
// Mechanism: the warps walk through 1 KiB of a constant bank, which the first constant cache (2 KiB) holds. The address
// is the same in all lanes, but the compiler does not know it (each lane adds its number times an argument that is
// zero): else the load would go through the uniform registers, once for the warp.
// Formula: WIDTH * UNROLL bytes * threads of an SM * iterations / cycles: what arrives in registers, not what moves.
// What would make it lie: uniform loads, constants folded into operands (FFMA R, R, c[3][8] is no load), misses,
// different addresses within a warp, which are read one after the other.
#include "probe.cuh"

constexpr u32 TABLE = 1024;
__constant__ __align__(16) char table[TABLE];

#if WIDTH == 4
typedef u32 Element;
#else
typedef u64 Element;
#endif

extern "C" __global__ void __launch_bounds__(1024)
constant_broadcast(Clocks *clocks, u32 iterations, u32 *sink, u32 zero) {
    u32 at = threadIdx.x * zero;
    Element sum = 0;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) sum ^= *(const Element *)(table + at + k * WIDTH);
        at = (at + UNROLL * WIDTH) % TABLE;
    }
    end(clocks, start);
    keep(sink, (u32)(sum ^ (u64)sum >> 32));
}
