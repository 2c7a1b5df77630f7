// What the wgmma probes share: operands, the instruction, the timed loop, and D in memory for the host to check.
//
// A warpgroup multiplies A, 64 × 4·K, by B, N × 4·K, and adds the product to D, 64 × N, REPEAT times an iteration:
// D += REPEAT · A · Bᵀ. K is the k of one instruction, 32 bytes. All three lie in global memory row after row. B, and A
// with SOURCE = shared, are copied to shared memory with the 128-byte swizzle (shared-tiles.cuh). A block is one
// warpgroup. An iteration is one group of instructions, and ends when all groups before it have ended.
//
// Descriptor (PTX ISA, matrix descriptor of wgmma), 64 bits:
//   0–13   start address >> 4: of the tile, and 32 bytes more for each step of k (the swizzle is of address bits)
//   16–29  leading dimension byte offset >> 4: not used with K-major swizzled tiles, 1 by custom
//   32–45  stride dimension byte offset >> 4: from eight rows to the next eight, 1024 >> 4 = 64
//   49–51  base offset: 0, since tiles begin at multiples of 1024 bytes
//   62–63  swizzle mode: 1 for 128 bytes
//
// Who holds what (PTX ISA, register fragments of wgmma.m64n…), with w = warp, g = lane / 4, t = lane % 4:
//   A with SOURCE = registers, register r: row 16·w + g + 8·(r % 2), 32-bit word t + 4·(r / 2) of the 8 of a step
//   D of 32 bits, register r: row 16·w + g + 8·(r / 2 % 2), column 8·(r / 4) + 2·t + r % 2
//   D of two FP16, register r: row 16·w + g + 8·(r % 2), columns 8·(r / 2) + 2·t and one more
//
// A probe defines TYPES, what follows `m64nN` in the instruction; SIGN, the sign bits of a word; PACKED, 2 if a
// register of D holds two FP16, else 1; and what follows the predicate: AFTER_SHARED, AFTER_REGISTERS (signs of A and
// B, transpositions).
#pragma once

#include "shared-tiles.cuh"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JOIN_(x, y) x##y
#define JOIN(x, y) JOIN_(x, y)

// Operands of asm by the registers of D: first those, then A and B.
#define SUMS_4 \
    "%0,%1,%2,%3"
#define SHARED_4 "%4, %5"
#define REGISTERS_4 "{%4, %5, %6, %7}, %8"
#define SUMS_16 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define SHARED_16 "%16, %17"
#define REGISTERS_16 "{%16, %17, %18, %19}, %20"
#define SUMS_32 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define SHARED_32 "%32, %33"
#define REGISTERS_32 "{%32, %33, %34, %35}, %36"
#define SUMS_64 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define SHARED_64 "%64, %65"
#define REGISTERS_64 "{%64, %65, %66, %67}, %68"
#define SUMS_128 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
    "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
    "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
    "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
    "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define SHARED_128 "%128, %129"
#define REGISTERS_128 "{%128, %129, %130, %131}, %132"
#define D_4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define D_16(i) D_4(i), D_4(i + 4), D_4(i + 8), D_4(i + 12)
#define D_32(i) D_16(i), D_16(i + 16)
#define D_64(i) D_32(i), D_32(i + 32)
#define D_128(i) D_64(i), D_64(i + 64)

#if N / PACKED == 256
#define SIZE 128
#elif N / PACKED == 128
#define SIZE 64
#elif N / PACKED == 64
#define SIZE 32
#elif N / PACKED == 32
#define SIZE 16
#elif N / PACKED == 8
#define SIZE 4
#endif

#define WGMMA                                                                                            \
    "{.reg .pred add; setp.ne.b32 add, 1, 0; wgmma.mma_async.sync.aligned.m64n" TEXT(N) TYPES            \
    " {" JOIN(SUMS_, SIZE) "}, "

// A in shared memory.
struct shared {
    u64 a;

    __device__ __forceinline__ void multiply(u32 (&d)[SIZE], u64 b, int step) const {
        asm volatile(WGMMA JOIN(SHARED_, SIZE) ", add" AFTER_SHARED ";}"
                     : JOIN(D_, SIZE)(0)
                     : "l"(a + 2 * step), "l"(b + 2 * step));
    }
};

// A in registers.
struct registers {
    u32 a[STEPS][4];

    __device__ __forceinline__ void multiply(u32 (&d)[SIZE], u64 b, int step) const {
        asm volatile(WGMMA JOIN(REGISTERS_, SIZE) ", add" AFTER_REGISTERS ";}"
                     : JOIN(D_, SIZE)(0)
                     : "r"(a[step][0]), "r"(a[step][1]), "r"(a[step][2]), "r"(a[step][3]), "l"(b + 2 * step));
    }
};

__device__ __forceinline__ u64 descriptor(const void *tile) {
    const u64 start = (address_of(tile) & 0x3ffff) >> 4;
    return start | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

__device__ __forceinline__ shared load(shared, uint4 *tile, const uint4 *a_rows, bool timed) {
    fill(tile, a_rows, 64, timed, make_uint4(SIGN, SIGN, SIGN, SIGN));
    return {descriptor(tile)};
}

__device__ __forceinline__ registers load(registers operand, uint4 *, const uint4 *a_rows, bool timed) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, word = threadIdx.x % 4;
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int from = timed ? step & ~1 : step;
            const u32 value = ((const u32 *)a_rows)[(row + 8 * (r % 2)) * 32 + 8 * from + word + 4 * (r / 2)];
            operand.a[step][r] = value ^ (timed && step % 2 ? SIGN : 0);
        }
    return operand;
}

__device__ __forceinline__ void store(u32 *d_rows, const u32 (&d)[SIZE]) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < SIZE; ++r) {
        const int i = r * PACKED, column = i / 4 * 8 + 2 * t + i % 2;
        d_rows[((row + i / 2 % 2 * 8) * N + column) / PACKED] = d[r];
    }
}

__device__ __forceinline__ void begin_group() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `PENDING` groups have not ended.
template <int PENDING>
__device__ __forceinline__ void wait_for_groups() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(PENDING) : "memory");
}

// An iteration has STEPS · REPEAT instructions in GROUPS groups; after each, all but the last PENDING must have ended.
template <int GROUPS, int PENDING>
__device__ __forceinline__ void multiply(
    Clocks *clocks, u32 iterations, const uint4 *a_rows, const uint4 *b_rows, u32 *d_rows
) {
    constexpr int LENGTH = STEPS * REPEAT / GROUPS;
    __shared__ __align__(1024) uint4 a_tile[64 * 8], b_tile[N * 8];
    const bool timed = iterations > 1;
    const SOURCE a = load(SOURCE{}, a_tile, a_rows, timed);
    fill(b_tile, b_rows, N, timed, make_uint4(0, 0, 0, 0));
    publish();
    const u64 b = descriptor(b_tile);
    u32 d[SIZE] = {};
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            begin_group();
#pragma unroll
            for (int k = 0; k < LENGTH; ++k) a.multiply(d, b, (group * LENGTH + k) % STEPS);
            end_group();
            wait_for_groups<PENDING>();
        }
    }
    wait_for_groups<0>();
    end(clocks, start);
    if (iterations == 1) store(d_rows, d);
}
