// The mma.sync instructions: a struct for each type of A and B and of the accumulators, named TYPE_ACCUMULATOR.
#pragma once

#include "mma-sync.cuh"

// By how many registers A, B and D are. FP32 sums lie in untyped registers, like everything of 32 bits.
#define MMA_4_2_4(instruction)                                                                           \
    asm volatile(instruction " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                    \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_4_2_2(instruction)                                                                           \
    asm volatile(instruction " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"                                \
                 : "+r"(d[0]), "+r"(d[1])                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_2_1_4(instruction)                                                                           \
    asm volatile(instruction " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"                             \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]))
#define MMA_2_1_2(instruction)                                                                           \
    asm volatile(instruction " {%0,%1}, {%2,%3}, {%4}, {%0,%1};"                                         \
                 : "+r"(d[0]), "+r"(d[1])                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]))
#define MMA_1_1_2(instruction)                                                                           \
    asm volatile(instruction " {%0,%1}, {%2}, {%3}, {%0,%1};"                                            \
                 : "+r"(d[0]), "+r"(d[1])                                                                \
                 : "r"(a[0]), "r"(b[0]))

// Structured sparsity: `metadata` has four bits for four consecutive k of a row: two indices, of those that A holds.
// All fours are alike here, so that it does not matter which lane holds those of which row.
#define MMA_SPARSE(instruction, metadata)                                                                \
    asm volatile(instruction " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0;"  \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]),          \
                   "r"(b[3]), "r"(metadata))

// Block scaling: all scales are alike, so that it does not matter which lane holds that of which block.
#define MMA_SCALED(instruction, scales)                                                                  \
    asm volatile("{.reg .b16 z; mov.b16 z, 0; " instruction                                              \
                 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {z, z}, {%10}, {z, z};}" \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scales))

#define MMA_TYPE(NAME, SHAPE, STATEMENT)                                                                 \
    struct NAME : SHAPE {                                                                                \
        static __device__ __forceinline__ void multiply(                                                 \
            u32 (&d)[D_REGISTERS], const u32 (&a)[A_REGISTERS], const u32 (&b)[B_REGISTERS]              \
        ) {                                                                                              \
            STATEMENT;                                                                                   \
        }                                                                                                \
    }

// M, words of A and of B in a row of one K, registers of D, word, sign bits of a word.
using Half = Shape<16, 8, 8, 4, u32, 0x80008000>;
using HalfToHalf = Shape<16, 8, 8, 2, u32, 0x80008000>;
using ShortHalf = Shape<16, 4, 4, 4, u32, 0x80008000>;
using ShortHalfToHalf = Shape<16, 4, 4, 2, u32, 0x80008000>;
using Single = Shape<16, 8, 8, 4, u32, 0x80000000>;
using Whole = Shape<16, 8, 8, 4, u32, 0>;
using SmallWhole = Shape<8, 4, 4, 2, u32, 0>;
using Byte = Shape<16, 8, 8, 4, u32, 0x80808080>;
using ByteToHalf = Shape<16, 8, 8, 2, u32, 0x80808080>;
using SparseHalf = Shape<16, 8, 16, 4, u32, 0x80008000>;
using SparseSingle = Shape<16, 8, 16, 4, u32, 0x80000000>;
using SparseByte = Shape<16, 8, 16, 4, u32, 0x80808080>;
using SparseWhole = Shape<16, 8, 16, 4, u32, 0>;

// A byte for each element: FP6 in its low six bits, FP4 in bits 5 to 2; the other bits must be 0. The sign is bit 5.
using SixBits = Shape<16, 8, 8, 4, u32, 0x20202020, u32, 0x3f3f3f3f>;
using FourBits = Shape<16, 8, 8, 4, u32, 0x20202020, u32, 0x3c3c3c3c>;
using Nibble = Shape<16, 8, 8, 4, u32, 0x88888888>;

MMA_TYPE(f16_f32, Half, MMA_4_2_4("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"));
MMA_TYPE(f16_f16, HalfToHalf, MMA_4_2_2("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"));
MMA_TYPE(f16_f32_k8, ShortHalf, MMA_2_1_4("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"));
MMA_TYPE(f16_f16_k8, ShortHalfToHalf, MMA_2_1_2("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16"));
MMA_TYPE(bf16_f32, Half, MMA_4_2_4("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"));
MMA_TYPE(tf32_f32, Single, MMA_4_2_4("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"));
MMA_TYPE(e4m3_f32, Byte, MMA_4_2_4("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"));
MMA_TYPE(e5m2_f32, Byte, MMA_4_2_4("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"));
MMA_TYPE(e4m3_f16, ByteToHalf, MMA_4_2_2("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"));
MMA_TYPE(e5m2_f16, ByteToHalf, MMA_4_2_2("mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e5m2.f16"));
MMA_TYPE(e3m2_f32, SixBits, MMA_4_2_4("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e3m2.e3m2.f32"));
MMA_TYPE(e2m3_f32, SixBits, MMA_4_2_4("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m3.e2m3.f32"));
MMA_TYPE(e2m1_f32, FourBits, MMA_4_2_4("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e2m1.f32"));
MMA_TYPE(s8_s32, Whole, MMA_4_2_4("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"));
MMA_TYPE(s8_s32_m8, SmallWhole, MMA_1_1_2("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"));
MMA_TYPE(s4_s32, Whole, MMA_4_2_4("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"));
MMA_TYPE(s4_s32_m8, SmallWhole, MMA_1_1_2("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32"));
MMA_TYPE(b1_s32_and, Whole, MMA_4_2_4("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc"));
MMA_TYPE(b1_s32_xor, SmallWhole, MMA_1_1_2("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc"));

// Of four consecutive k, A holds those at 0 and 2 (0b1000); of two TF32, the second (0b1110).
#define SPARSE "mma.sp::ordered_metadata.sync.aligned."
MMA_TYPE(sparse_f16_f32, SparseHalf, MMA_SPARSE(SPARSE "m16n8k32.row.col.f32.f16.f16.f32", 0x88888888));
MMA_TYPE(sparse_bf16_f32, SparseHalf, MMA_SPARSE(SPARSE "m16n8k32.row.col.f32.bf16.bf16.f32", 0x88888888));
MMA_TYPE(sparse_tf32_f32, SparseSingle, MMA_SPARSE(SPARSE "m16n8k16.row.col.f32.tf32.tf32.f32", 0xeeeeeeee));
MMA_TYPE(sparse_e4m3_f32, SparseByte, MMA_SPARSE(SPARSE "m16n8k64.row.col.f32.e4m3.e4m3.f32", 0x88888888));
MMA_TYPE(sparse_e5m2_f32, SparseByte, MMA_SPARSE(SPARSE "m16n8k64.row.col.f32.e5m2.e5m2.f32", 0x88888888));
MMA_TYPE(sparse_s8_s32, SparseWhole, MMA_SPARSE(SPARSE "m16n8k64.row.col.s32.s8.s8.s32", 0x88888888));

// All scales are 1: UE8M0 2^(127 − 127), UE4M3 2^(7 − 7).
#define SCALED(kind) "mma.sync.aligned.kind::" kind ".block_scale.scale_vec::"
#define ONES 0x7f7f7f7f
MMA_TYPE(mxf4_f32, Nibble, MMA_SCALED(SCALED("mxf4") "2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0", ONES));
MMA_TYPE(nvf4_f32, Nibble, MMA_SCALED(SCALED("mxf4nvf4") "4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3", 0x38383838));
MMA_TYPE(mx_e4m3_f32, Byte, MMA_SCALED(SCALED("mxf8f6f4") "1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0", ONES));
MMA_TYPE(mx_e3m2_f32, SixBits, MMA_SCALED(SCALED("mxf8f6f4") "1X.m16n8k32.row.col.f32.e3m2.e3m2.f32.ue8m0", ONES));

#define BITS(x) "d"(__longlong_as_double(x))
struct f64_f64 : Shape<8, 4, 4, 2, u64, 0x8000000000000000, double> {
    static __device__ __forceinline__ void multiply(double (&d)[2], const u64 (&a)[1], const u64 (&b)[1]) {
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(d[0]), "+d"(d[1])
                     : BITS(a[0]), BITS(b[0]));
    }
};

struct f64_f64_m16 : Shape<16, 16, 16, 4, u64, 0x8000000000000000, double> {
    static __device__ __forceinline__ void multiply(double (&d)[4], const u64 (&a)[8], const u64 (&b)[4]) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, "
                     "{%12,%13,%14,%15}, {%0,%1,%2,%3};"
                     : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                     : BITS(a[0]), BITS(a[1]), BITS(a[2]), BITS(a[3]), BITS(a[4]), BITS(a[5]), BITS(a[6]), BITS(a[7]),
                       BITS(b[0]), BITS(b[1]), BITS(b[2]), BITS(b[3]));
    }
};
