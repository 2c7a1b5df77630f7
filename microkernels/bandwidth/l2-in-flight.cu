// Bytes per second from L2 against the bytes that an SM has in flight: Little's law, with its knee.
// Mechanism: one block per SM. Each of its threads has DEPTH independent loads of 16 bytes in flight, and makes the
// next ones only when all of them have come: their sum, times an argument that is zero, is part of the next address. A
// warp reads 512 * DEPTH bytes in a row.
// Formula: bandwidth = 16 * DEPTH bytes * threads * iterations / time; in flight per SM = 16 * DEPTH * threads of the
// block. The bandwidth is min(peak, in flight * SMs / latency); the knee is at peak * latency.
// What would make it lie: loads that the compiler spreads between the uses of the others (then fewer are in flight), a
// launch whose blocks do not lie one on each SM, hits in L1 (.cg loads pass it by), a buffer larger than the near
// partition.
#include "vector.cuh"
#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1)
l2_in_flight(Clocks *clocks, u32 iterations, u32 *sink, const char *buffer, u64 bytes, u32 zero) {
    BlockWalk walk(bytes, blockDim.x * DEPTH * 16, threadIdx.x / 32 * 512 * DEPTH + threadIdx.x % 32 * 16);
    Vector<16> sum = own_words<16>();
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        Vector<16> value[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) load_l2(value[k], buffer + walk.at + k * 512);
        fold(sum, value);
        walk.next(folded(sum) * zero);
    }
    end(clocks, start);
    keep(sink, folded(sum));
}
