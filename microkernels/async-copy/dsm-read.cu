// Bytes that one SM reads per clock from the shared memory of another block of its cluster, with loads of 16 bytes.
// Mechanism: the blocks of a cluster form a ring; the warps of each walk through 16 KiB of the next block's shared
// memory, the lanes of a load side by side. The loads are generic, as those of `ld.shared::cluster` become. UNROLL
// loads per iteration are independent.
// Formula: 16 * UNROLL bytes * threads of an SM * iterations / cycles.
// What would make it lie: loads that the compiler merges, the own block's memory (the launch must really make
// clusters), clusters that wait for a place on the GPU, too few warps. At the end each block asks the one that it read
// for its number.
#include "cluster.cuh"

constexpr u32 WINDOW = 16384;

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(1024, 1)
dsm_read(Clocks *clocks, u32 iterations, u32 *sink, const u32 *source) {
    __shared__ __align__(16) u32 memory[WINDOW / 4];
    for (u32 i = threadIdx.x; i < WINDOW / 4; i += blockDim.x) memory[i] = source[i];
    cluster_barrier();
    const u64 remote = generic(in_block(shared_address(memory), neighbour(1)));
    u32 at = (threadIdx.x / 32 * 512 * UNROLL + threadIdx.x % 32 * 16) % WINDOW;
    uint4 sum = make_uint4(0, 0, 0, 0);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        uint4 value[UNROLL];
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k)
            asm volatile("ld.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(value[k].x), "=r"(value[k].y), "=r"(value[k].z), "=r"(value[k].w)
                         : "l"(remote + at + k * 512));
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) {
            sum.x ^= value[k].x;
            sum.y ^= value[k].y;
            sum.z ^= value[k].z;
            sum.w ^= value[k].w;
        }
        at = (at + 512 * UNROLL) % WINDOW;
    }
    end(clocks, start);
    keep(sink, sum.x ^ sum.y ^ sum.z ^ sum.w);
    cluster_barrier();
    check_neighbour(sink, memory);
}
