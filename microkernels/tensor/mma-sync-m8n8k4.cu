// FP16 matrix multiplies that one SM of Volta completes per clock through mma.sync.m8n8k4, sums in FP32 or FP16.
// Mechanism: each of the four quad pairs of a warp multiplies 8 × 4 by 4 × 8; every warp has TILES independent sums.
// Formula: 2 · 4 · 8 · 8 · 4 FLOP · TILES · DEPTH · REPEAT · warps · iterations / cycles.
// What would make it lie: too few sums in flight, a newer architecture (m8n8k4 is put together there), clocks that
// power limits: random data.
//
// A is 32 × 4·DEPTH (a quad pair has eight rows of it), B 8·TILES × 4·DEPTH (the same for all quad pairs), D
// 32 × 8·TILES, row after row. With one iteration D = REPEAT · A · Bᵀ is stored; with more, odd steps of K repeat the
// even ones with the sign of A turned (see mma-sync.cuh). Which lane holds what (PTX ISA, fragments of mma.m8n8k4 with
// .f16), with quad pair q = lane % 16 / 4 and h = lane % 4 + 4 · (lane / 16):
//   A: row 8·q + h, all 4 k of a step, in two registers;  B: row h of a tile, all 4 k of a step, in two registers
//   D of FP16, register r: row 8·q + h, columns 2·r and 2·r + 1
//   D of FP32, register r: row 8·q + (lane & 1) + (r & 2) + 4 · (lane / 16), column (r & 4) + (lane & 2) + (r & 1)
#include "probe.cuh"

struct f32 {
    static constexpr int REGISTERS = 8;

    static __device__ __forceinline__ void multiply(u32 (&d)[8], uint2 a, uint2 b) {
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, "
                     "{%0,%1,%2,%3,%4,%5,%6,%7};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
                     : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y));
    }

    static __device__ __forceinline__ int place(int lane, int r) {  // of a register in D, in registers
        const int row = lane % 16 / 4 * 8 + (lane & 1) + (r & 2) + lane / 16 * 4;
        return row * 8 * TILES + (r & 4) + (lane & 2) + (r & 1);
    }

    static constexpr int TILE = 8;  // registers of a tile in a row of D
};

struct f16 {
    static constexpr int REGISTERS = 4;

    static __device__ __forceinline__ void multiply(u32 (&d)[4], uint2 a, uint2 b) {
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%0,%1,%2,%3}, {%4,%5}, {%6,%7}, {%0,%1,%2,%3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y));
    }

    static __device__ __forceinline__ int place(int lane, int r) {
        const int row = lane % 16 / 4 * 8 + lane % 4 + lane / 16 * 4;
        return row * 4 * TILES + r;
    }

    static constexpr int TILE = 4;
};

extern "C" __global__ void __launch_bounds__(512, 1)
mma_sync_m8n8k4(Clocks *clocks, u32 iterations, const uint2 *a_rows, const uint2 *b_rows, u32 *d_rows) {
    const int lane = threadIdx.x % 32, quad_pair = lane % 16 / 4, h = lane % 4 + lane / 16 * 4;
    uint2 a[DEPTH], b[DEPTH][TILES];
    u32 d[TILES][SUM::REGISTERS] = {};
#pragma unroll
    for (int step = 0; step < DEPTH; ++step) {
        const int from = iterations > 1 ? step & ~1 : step;
        const u32 sign = iterations > 1 && step % 2 ? 0x80008000 : 0;
        a[step] = a_rows[(8 * quad_pair + h) * DEPTH + from];
        a[step].x ^= sign;
        a[step].y ^= sign;
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) b[step][tile] = b_rows[(8 * tile + h) * DEPTH + from];
    }
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (int step = 0; step < DEPTH * REPEAT; ++step)
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) SUM::multiply(d[tile], a[step % DEPTH], b[step % DEPTH][tile]);
    }
    end(clocks, start);
    if (iterations > 1 || threadIdx.x >= 32) return;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
        for (int r = 0; r < SUM::REGISTERS; ++r) d_rows[SUM::place(lane, r) + SUM::TILE * tile] = d[tile][r];
}
