// Bytes that one SM receives per clock from another SM of its cluster by bulk copies between their shared memories.
// Mechanism: the blocks of a cluster form a ring. One warp of each sends DEPTH copies of SIZE bytes to the next block,
// where each completes on a barrier. The receiver then expects the next copy and tells the sender that the slot is
// free; only then is it filled again.
// Formula: SIZE * DEPTH bytes * iterations / cycles, for the block that each SM has.
// What would make it lie: copies that never came (what came last is compared with what was sent), clusters that wait
// for a place on the GPU, too few copies in flight to hide the way there and back.
#include "bulk.cuh"
#include "cluster.cuh"

// From this block's shared memory into another's, where `barrier` learns how many bytes came.
__device__ __forceinline__ void bulk_send(u32 to, u32 from, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 : : "r"(to), "r"(from), "r"(SIZE), "r"(barrier) : "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
dsm_bulk(Clocks *clocks, u32 iterations, u32 *sink, const u32 *source) {
    extern __shared__ __align__(128) u32 memory[];  // what is sent, then a slot for each copy that comes
    __shared__ u64 barriers[2 * DEPTH];             // a copy has come; a slot of the next block is free
    const u32 words = kept(shared_address(memory)), came = kept(shared_address(barriers)), free = came + 8 * DEPTH;
    const u32 next = neighbour(1), before = neighbour(CLUSTER - 1);
    for (u32 i = threadIdx.x; i < SIZE / 4; i += 32) memory[i] = source[i];
    if (threadIdx.x == 0)
        for (u32 k = 0; k < 2 * DEPTH; ++k) init(came + 8 * k, 1);
    publish_barriers();
    if (elected())
        for (u32 k = 0; k < DEPTH; ++k) expect(came + 8 * k, SIZE);
    cluster_barrier();
    const u32 slots = in_block(words, next) + SIZE, came_there = in_block(came, next);
    const u32 free_there = in_block(free, before);
    const Stamp start = begin();
    if (elected())
        for (u32 k = 0; k < DEPTH; ++k) bulk_send(slots + k * SIZE, words, came_there + 8 * k);
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) {
            wait(came + 8 * k, i % 2);
            if (elected()) {
                expect(came + 8 * k, SIZE);
                arrive_remotely(free_there + 8 * k);
            }
            wait(free + 8 * k, i % 2);
            if (elected()) bulk_send(slots + k * SIZE, words, came_there + 8 * k);
        }
    }
    for (u32 k = 0; k < DEPTH; ++k) wait(came + 8 * k, iterations % 2);
    end(clocks, start);
    cluster_barrier();
    for (u32 k = 0; k < DEPTH; ++k) compare(sink, memory + (k + 1) * SIZE / 4, source, SIZE);
    check_neighbour(sink, memory);
}
