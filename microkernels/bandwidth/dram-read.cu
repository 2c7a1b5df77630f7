// Bytes per second that all SMs together read from DRAM.
// Mechanism: the grid walks over a buffer far larger than L2. A block reads BLOCK * DEPTH consecutive 16-byte elements
// per step, DEPTH independent loads per thread in flight, and folds them into a xor. At the end the walk begins again.
// Formula: 16 * DEPTH bytes * threads * iterations / time.
// What would make it lie: a buffer that L2 holds in part, too few bytes in flight, dead or merged loads, other widths.
// Without the 1 in the launch bounds the compiler saves registers: it waits for each two loads before it makes the
// next.
#include "probe.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
dram_read(Clocks *clocks, u32 iterations, u32 *sink, const uint4 *buffer, u64 bytes) {
    const u64 step = (u64)gridDim.x * BLOCK * DEPTH;
    const uint4 *const first = buffer + (u64)blockIdx.x * BLOCK * DEPTH + threadIdx.x;
    const uint4 *const last = first + bytes / sizeof(uint4) - 2 * step;
    const uint4 *element = first;
    uint4 sum = make_uint4(0, 0, 0, 0);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        uint4 value[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) value[k] = element[k * BLOCK];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) {
            sum.x ^= value[k].x;
            sum.y ^= value[k].y;
            sum.z ^= value[k].z;
            sum.w ^= value[k].w;
        }
        element = element > last ? first : element + step;
    }
    end(clocks, start);
    keep(sink, sum.x ^ sum.y ^ sum.z ^ sum.w);
}
