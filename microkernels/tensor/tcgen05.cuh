// What the tcgen05.mma probes share: operands, tensor memory, the timed loop, and D in memory for the host to check.
//
// A block multiplies A, 128 × 4·K, by B, N × 4·K, and adds the product to D, 128 × N in tensor memory, REPEAT times an
// iteration: D += REPEAT · A · Bᵀ. K is the k of one instruction, 32 bytes. All three lie in global memory row after
// row; A and B are copied to shared memory with the 128-byte swizzle (shared-tiles.cuh). One thread issues the
// instructions; before it commits those of an iteration it waits for those of the one before, so that at least one
// iteration is on its way. With PAIR = 2 two blocks of a cluster do it together: A and D have 256 rows, each block
// holds half of the rows of A, B and D, and the first block issues.
//
// Descriptor of a tile (PTX ISA, tcgen05 shared memory descriptor), 64 bits:
//   0–13   start address >> 4: of the tile, and 32 bytes more for each step of k (the swizzle is of address bits)
//   16–29  leading dimension byte offset >> 4: not used with K-major swizzled tiles, 1 by custom
//   32–45  stride dimension byte offset >> 4: from eight rows to the next eight, 1024 >> 4 = 64
//   46–48  0b001
//   49–51  base offset: 0, since tiles begin at multiples of 1024 bytes
//   52     leading dimension mode: 0, an offset
//   61–63  swizzle mode: 2 for 128 bytes
//
// Instruction descriptor (PTX ISA, tcgen05 instruction descriptor), 32 bits; what is not named is 0: dense, no
// saturation, no negation, both operands K-major:
//   4–5    type of D: 1 FP32, 2 INT32 (block-scaled kinds: which of the scales of B, 0)
//   7–9    type of A, 10–12 type of B
//   17–22  N >> 3
//   23     block-scaled kinds: type of the scales, 0 UE4M3, 1 UE8M0
//   24–28  M >> 4, 128 or 256 (the table of kind::mxf4 has M >> 7 in 27–28: the same bits)
//
// Tensor memory: lane m, column n of a block holds D[m][n] of its rows in 32 bits; warp w reaches lanes 32·w to
// 32·w + 31. Scales lie in columns 256 to 319; all are 1, so that it does not matter where that of which block lies.
//
// A probe defines KIND; FORMAT, the type of A and B; SUM, that of D; SIGN, the sign bits of 16 bytes; PAIR; and with
// scales SCALE, four of them, and SCALE_TYPE.
#pragma once

#include "shared-tiles.cuh"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define GROUP "cta_group::" TEXT(PAIR)

constexpr u32 M = 128;           // rows of A and D in a block
constexpr u32 B_ROWS = N / PAIR;  // rows of B in a block
constexpr u32 SHAPE = N / 8 << 17 | M * PAIR / 16 << 24, TYPES = FORMAT << 7 | FORMAT << 10;
#ifdef SCALE
constexpr u32 COLUMNS = 512, INSTRUCTION = SHAPE | TYPES | SCALE_TYPE << 23;
#else
constexpr u32 COLUMNS = N, INSTRUCTION = SHAPE | TYPES | SUM << 4;
#endif

__device__ __forceinline__ void before_barrier() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void after_barrier() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// A barrier of the block, or of both blocks of a pair.
__device__ __forceinline__ void all_together() {
    before_barrier();
    if (PAIR == 1) __syncthreads();
    if (PAIR == 2)
        asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
    after_barrier();
}

__device__ __forceinline__ u32 rank_in_pair() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return PAIR == 1 ? 0 : rank;
}

__device__ __forceinline__ u64 descriptor(const void *tile) {
    const u32 address = address_of(tile);
    if (address % 1024) __trap();
    return (u64)((address & 0x3ffff) >> 4) | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 46 | 2ull << 61;
}

// Takes COLUMNS columns of tensor memory; `place` is in shared memory.
__device__ __forceinline__ u32 take_columns(u32 *place) {
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc." GROUP ".sync.aligned.shared::cta.b32 [%0], %1;"
                     :
                     : "r"((u32)__cvta_generic_to_shared(place)), "n"(COLUMNS)
                     : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit." GROUP ".sync.aligned;");
    }
    all_together();
    return *place;
}

__device__ __forceinline__ void give_back(u32 columns) {
    all_together();
    if (threadIdx.x < 32)
        asm volatile("tcgen05.dealloc." GROUP ".sync.aligned.b32 %0, %1;" : : "r"(columns), "n"(COLUMNS));
}

__device__ __forceinline__ u32 lanes_of_warp() { return threadIdx.x / 32 * 32 << 16; }

__device__ __forceinline__ void set(u32 columns, u32 count, u32 value) {
#pragma unroll 1
    for (u32 column = columns + lanes_of_warp(), i = 0; i < count; ++i)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" : : "r"(column + i), "r"(value) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void store(u32 *d_rows, u32 columns) {
#pragma unroll 1
    for (u32 column = 0; column < N; ++column) {
        u32 value;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];"
                     : "=r"(value)
                     : "r"(columns + lanes_of_warp() + column)
                     : "memory");
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        d_rows[threadIdx.x * N + column] = value;
    }
}

__device__ __forceinline__ bool one_thread() {
    u32 chosen;
    asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p;}" : "=r"(chosen));
    return __shfl_sync(0xffffffff, threadIdx.x / 32, 0) == 0 && chosen;
}

__device__ __forceinline__ void prepare(u32 barrier) {
    if (threadIdx.x) return;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// All instructions so far arrive at the barrier together when they have ended.
__device__ __forceinline__ void commit(u32 barrier) {
    asm volatile("tcgen05.commit." GROUP ".mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 :
                 : "r"(barrier)
                 : "memory");
}

// Waits for the end of the phase with this parity; that before the first counts as ended, and has parity 1.
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
    asm volatile(
        "{.reg .pred ended; again: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1; @!ended bra again;}"
        :
        : "r"(barrier), "r"(parity)
        : "memory");
}

__device__ __forceinline__ void multiply(u32 d, u64 a, u64 b, int step) {
#ifdef SCALE
    asm volatile("{.reg .pred add; setp.ne.b32 add, 1, 0; "
                 "tcgen05.mma." GROUP ".kind::" KIND " [%0], %1, %2, %3, [%4], [%5], add;}"
                 :
                 : "r"(d), "l"(a + 2 * step), "l"(b + 2 * step), "n"(INSTRUCTION), "r"(d + 256), "r"(d + 288)
                 : "memory");
#else
    asm volatile("{.reg .pred add; setp.ne.b32 add, 1, 0; tcgen05.mma." GROUP ".kind::" KIND " [%0], %1, %2, %3, add;}"
                 :
                 : "r"(d), "l"(a + 2 * step), "l"(b + 2 * step), "n"(INSTRUCTION)
                 : "memory");
#endif
}

// SINGLY: each instruction is waited for, for its latency.
template <bool SINGLY>
__device__ __forceinline__ void multiply(
    Clocks *clocks, u32 iterations, const uint4 *a_rows, const uint4 *b_rows, u32 *d_rows
) {
    extern __shared__ __align__(1024) uint4 tiles[];
    __shared__ u64 place_of_barrier;
    __shared__ u32 place_of_columns;
    const u32 rank = rank_in_pair();
    fill(tiles, a_rows + rank * M * 8, M, iterations > 1, SIGN);
    fill(tiles + M * 8, b_rows + rank * B_ROWS * 8, B_ROWS, iterations > 1, make_uint4(0, 0, 0, 0));
    publish();
    const u64 a = descriptor(tiles), b = descriptor(tiles + M * 8);
    // From lane 0: NVRTC 13.0 works out an address anew in the loop, from the block's place in its cluster, if it can.
    const u32 barrier = __shfl_sync(0xffffffff, (u32)__cvta_generic_to_shared(&place_of_barrier), 0);
    prepare(barrier);
    const u32 d = take_columns(&place_of_columns);
    set(d, N, 0);
#ifdef SCALE
    set(d + 256, 64, SCALE);
#endif
    all_together();
    const Stamp start = begin();
    if (rank == 0) {
        if (one_thread()) {
#pragma unroll 1
            for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
                for (int k = 0; k < STEPS * REPEAT; ++k) {
                    multiply(d, a, b, k % STEPS);
                    if (SINGLY) {
                        commit(barrier);
                        wait(barrier, k % 2);
                    }
                }
                if (!SINGLY) {
                    wait(barrier, i % 2 ^ 1);
                    commit(barrier);
                }
            }
        }
        wait(barrier, SINGLY ? 1 : iterations % 2 ^ 1);
    }
    if (PAIR == 2) all_together();
    end(clocks, start);
    after_barrier();
    if (iterations == 1) store(d_rows + rank * M * N, d);
    give_back(d);
}
