// What the mma.sync probes share: fragments from memory, the timed loop, and D in memory for the host to check.
//
// Every warp multiplies A, M × K·DEPTH, by B, 8·TILES × K·DEPTH, and adds the product to D, M × 8·TILES, REPEAT times
// an iteration: D += REPEAT · A · Bᵀ. All three lie in memory row after row: A is `.row` and B `.col` to PTX.
//
// Which lane holds what (PTX ISA, matrix fragments of mma.m8n8 and mma.m16n8), g = lane / 4, t = lane % 4. A word is
// 32 bits of consecutive k, 64 bits for FP64; A of a sparse product lies compressed:
//   A, register r:  row g + 8·(r % (M / 8)),  word t + 4·(r / (M / 8))
//   B, register r:  row g,                    word t + 4·r
//   D, register r:  row g + 8·(r / 2),        column 2·t + r % 2
//   D with two FP16 in register r:  row g + 8·r,  columns 2·t and 2·t + 1
//
// With one iteration D is stored, and is REPEAT · A · Bᵀ. With more, the odd steps of K repeat the even ones with the
// sign of A turned, so that D stays small: a sum that only grows soon swallows what is added to it, and its bits stand
// still. The compiler cannot see it, and the loop is the same.
#pragma once

#include "probe.cuh"

// SIGN: the sign bits of a word, 0 for integers. MASK: the bits of a word that belong to elements.
template <
    int ROWS_, int A_WORDS_, int B_WORDS_, int D_REGISTERS_, class Word_, Word_ SIGN_, class Result_ = Word_,
    Word_ MASK_ = ~Word_(0)>
struct Shape {
    static constexpr int ROWS = ROWS_, A_WORDS = A_WORDS_, B_WORDS = B_WORDS_;  // words of one K
    static constexpr int A_REGISTERS = ROWS / 8 * A_WORDS / 4, B_REGISTERS = B_WORDS / 4, D_REGISTERS = D_REGISTERS_;
    static constexpr Word_ SIGN = SIGN_, MASK = MASK_;
    using Word = Word_;
    using Result = Result_;
};

template <class Mma>
struct Warp {
    typename Mma::Word a[DEPTH][Mma::A_REGISTERS], b[DEPTH][TILES][Mma::B_REGISTERS];
    typename Mma::Result d[TILES][Mma::D_REGISTERS];

    __device__ __forceinline__ void load(
        const typename Mma::Word *a_rows, const typename Mma::Word *b_rows, bool timed
    ) {
        constexpr int HEIGHT = Mma::ROWS / 8;
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int step = 0; step < DEPTH; ++step) {
            const int from = timed ? step & ~1 : step;
            const typename Mma::Word sign = timed && step % 2 ? Mma::SIGN : 0;
#pragma unroll
            for (int r = 0; r < Mma::A_REGISTERS; ++r) {
                const int row = g + 8 * (r % HEIGHT), word = t + 4 * (r / HEIGHT);
                a[step][r] = (a_rows[(row * DEPTH + from) * Mma::A_WORDS + word] & Mma::MASK) ^ sign;
            }
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
                for (int r = 0; r < Mma::B_REGISTERS; ++r)
                    b[step][tile][r] = b_rows[((8 * tile + g) * DEPTH + from) * Mma::B_WORDS + t + 4 * r] & Mma::MASK;
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int r = 0; r < Mma::D_REGISTERS; ++r) d[tile][r] = 0;
    }

    __device__ __forceinline__ void store(typename Mma::Result *d_rows) const {
        constexpr int PACKED = Mma::ROWS / 4 / Mma::D_REGISTERS;  // columns in a register
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int r = 0; r < Mma::D_REGISTERS; ++r) {
                const int row = g + 8 * (r * PACKED / 2), column = 8 * tile + 2 * t + r * PACKED % 2;
                d_rows[(row * 8 * TILES + column) / PACKED] = d[tile][r];
            }
    }
};

template <class Mma>
__device__ __forceinline__ void multiply(
    Clocks *clocks, u32 iterations, const typename Mma::Word *a_rows, const typename Mma::Word *b_rows,
    typename Mma::Result *d_rows
) {
    Warp<Mma> warp;
    warp.load(a_rows, b_rows, iterations > 1);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < DEPTH * REPEAT; ++step)
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile)
                Mma::multiply(warp.d[tile], warp.a[step % DEPTH], warp.b[step % DEPTH][tile]);
    }
    end(clocks, start);
    if (iterations == 1 && threadIdx.x < 32) warp.store(d_rows);
}
