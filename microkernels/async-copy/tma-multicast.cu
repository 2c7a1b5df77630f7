// Bytes that each SM receives per clock from L2 by bulk copies (TMA) that go to all blocks of a cluster at once.
// Mechanism: each block of a cluster reads its share of SIZE bytes from L2 and sends it to the same place of all
// blocks, so that L2 gives each byte once per cluster. A slot is filled again when all blocks have said that theirs is
// free.
// Formula: SIZE * DEPTH bytes * iterations / cycles, for the block that each SM has: what arrives, not what L2 gives.
// What would make it lie: copies that never came (what came last is compared with the source), clusters that wait for a
// place on the GPU, too few copies in flight to hide the way there and back.
#include "bulk.cuh"
#include "cluster.cuh"

constexpr u32 SHARE = SIZE / CLUSTER;

__device__ __forceinline__ void bulk_spread(u32 to, const void *from, u32 barrier) {
    const unsigned short blocks = (1 << CLUSTER) - 1;
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1], %2, [%3], %4;"
                 : : "r"(to), "l"(from), "r"(SHARE), "r"(barrier), "h"(blocks) : "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
tma_multicast(Clocks *clocks, u32 iterations, u32 *sink, const char *source, u64 bytes) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 barriers[2 * DEPTH];  // all shares have come; all blocks' slots are free
    const u32 slot = kept(shared_address(ring)), came = kept(shared_address(barriers)), free = came + 8 * DEPTH;
    const u32 share = cluster_rank() * SHARE;
    Walk walk(bytes, DEPTH * SIZE, blockIdx.x / CLUSTER, gridDim.x / CLUSTER);
    if (threadIdx.x == 0)
        for (u32 k = 0; k < DEPTH; ++k) {
            init(came + 8 * k, 1);
            init(free + 8 * k, CLUSTER);
        }
    publish_barriers();
    if (elected())
        for (u32 k = 0; k < DEPTH; ++k) expect(came + 8 * k, SIZE);
    cluster_barrier();
    u32 free_there[CLUSTER];
#pragma unroll
    for (u32 block = 0; block < CLUSTER; ++block) free_there[block] = in_block(free, block);
    const Stamp start = begin();
    if (elected())
        for (u32 k = 0; k < DEPTH; ++k)
            bulk_spread(slot + k * SIZE + share, source + walk.at + k * SIZE + share, came + 8 * k);
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        walk.next();
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) {
            wait(came + 8 * k, i % 2);
            if (elected()) {
                expect(came + 8 * k, SIZE);
#pragma unroll
                for (u32 block = 0; block < CLUSTER; ++block) arrive_remotely(free_there[block] + 8 * k);
            }
            wait(free + 8 * k, i % 2);
            if (elected()) bulk_spread(slot + k * SIZE + share, source + walk.at + k * SIZE + share, came + 8 * k);
        }
    }
    for (u32 k = 0; k < DEPTH; ++k) wait(came + 8 * k, iterations % 2);
    end(clocks, start);
    cluster_barrier();
    compare(sink, ring, source + walk.at, DEPTH * SIZE);
}
