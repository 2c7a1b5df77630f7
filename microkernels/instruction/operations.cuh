// One function per measured instruction: the next link of a chain. `x` is the link before, `a` and `b` come from kernel
// arguments. `y` is an older link, or one of another chain: where the compiler could fold equal steps into one (sums,
// logic), it makes them unequal. What a link does not use is left out.
#pragma once
#include "probe.cuh"

#define LINK(VALUE, NAME) __device__ __forceinline__ VALUE NAME(VALUE x, VALUE y, VALUE a, VALUE b)

LINK(double, dadd) { return x + a; }
LINK(double, dfma) { return fma(x, a, b); }

LINK(float, fadd) { return x + a; }
LINK(float, fmul) { return x * a; }
LINK(float, ffma) { return fmaf(x, a, b); }

// Two numbers in one register, or in a pair of them.
LINK(u64, ffma2) {
    asm("fma.rn.f32x2 %0, %0, %1, %2;" : "+l"(x) : "l"(a), "l"(b));
    return x;
}
LINK(u32, hfma2) {
    asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
    return x;
}
LINK(u32, hfma2_bf16) {
    asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
    return x;
}

// The minus sign keeps the sum of three in one instruction: without it ptxas splits some on Blackwell.
LINK(u32, iadd3) { return x + y - a; }
LINK(u32, iadd) { return x + y; }
LINK(u32, imad) { return x * a + b; }
LINK(u32, imad_hi) { return __umulhi(x, a); }
LINK(u32, lop3) {
    asm("lop3.b32 %0, %0, %1, %2, 0x6a;" : "+r"(x) : "r"(y), "r"(a));
    return x;
}
LINK(u32, shf) { return __funnelshift_l(x, y, a); }
LINK(u32, dp4a) {
    asm("dp4a.u32.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
    return x;
}
LINK(u32, viaddmnmx) { return max(int(x + y), int(a)); }
LINK(u32, popc) { return __popc(x); }

// Special functions as the unit computes them: approximate, subnormals are zero.
#define SPECIAL(NAME, PTX)                                                                                             \
    LINK(float, NAME) {                                                                                                \
        asm(PTX ".ftz.f32 %0, %0;" : "+f"(x));                                                                         \
        return x;                                                                                                      \
    }
namespace mufu {
SPECIAL(ex2, "ex2.approx")
SPECIAL(lg2, "lg2.approx")
SPECIAL(rsq, "rsqrt.approx")
SPECIAL(sin, "sin.approx")
SPECIAL(sqrt, "sqrt.approx")
// Without the absolute value, which is part of the operand, two reciprocals would cancel out.
LINK(float, rcp) {
    asm("{.reg .f32 t; abs.f32 t, %0; rcp.approx.ftz.f32 %0, t;}" : "+f"(x));
    return x;
}
LINK(float, tanh) {
    asm("tanh.approx.f32 %0, %0;" : "+f"(x));
    return x;
}
}  // namespace mufu

// Conversions. The bits of the result, or half of them, are the next operand, whatever their type.
LINK(u32, f2i) {
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(x) : "f"(__uint_as_float(x)));
    return x;
}
LINK(u32, i2f) { return __float_as_uint(__int2float_rn(x)); }
LINK(double, f32_to_f64) { return __int_as_float(__double2loint(x)); }
LINK(double, f64_to_f32) { return __hiloint2double(__double2hiint(x), __float_as_int(__double2float_rn(x))); }
LINK(u32, f16_to_f32) {
    asm("cvt.f32.f16 %0, %1;" : "=r"(x) : "h"((unsigned short)(x >> 16)));
    return x;
}
LINK(u32, f32_to_f16x2) {
    asm("cvt.rn.f16x2.f32 %0, %1, %0;" : "+r"(x) : "r"(a));
    return x;
}
LINK(u32, f32_to_bf16x2) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %0;" : "+r"(x) : "r"(a));
    return x;
}
// Two instructions: the second keeps the half of the register that the first has written.
LINK(u32, f32_to_e4m3x4) {
    asm("{.reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %0, %1; cvt.rn.satfinite.e4m3x2.f32 high, %2, %0; "
        "mov.b32 %0, {low, high};}"
        : "+r"(x)
        : "r"(a), "r"(b));
    return x;
}

// What the lanes of a warp do together.
LINK(u32, shfl) {
    asm volatile("shfl.sync.idx.b32 %0, %0, %1, 31, 0xffffffff;" : "+r"(x) : "r"(a));
    return x;
}
// From predicate to predicate: ptxas keeps it in one between the links.
LINK(u32, vote) {
    asm volatile("{.reg .pred p; setp.ne.u32 p, %0, 0; vote.sync.any.pred p, p, 0xffffffff; selp.u32 %0, 1, 0, p;}"
                 : "+r"(x));
    return x;
}
LINK(u32, ballot) {
    asm volatile("{.reg .pred p; setp.ne.u32 p, %0, %1; vote.sync.ballot.b32 %0, p, 0xffffffff;}" : "+r"(x) : "r"(a));
    return x;
}
LINK(u32, match_any) {
    asm volatile("match.any.sync.b32 %0, %0, 0xffffffff;" : "+r"(x));
    return x;
}
LINK(u32, redux_add) {
    asm volatile("redux.sync.add.u32 %0, %0, 0xffffffff;" : "+r"(x));
    return x;
}
LINK(u32, redux_min) {
    asm volatile("redux.sync.min.u32 %0, %0, 0xffffffff;" : "+r"(x));
    return x;
}

// Another number for each i, near to the first. What differs from lane to lane lies in registers of its own, not in the
// constant bank or in uniform registers, which have other ports.
__device__ __forceinline__ u32 vary(u32 a, u32 i) { return a ^ i; }
__device__ __forceinline__ u64 vary(u64 a, u32 i) { return a ^ (i | u64(i) << 32); }
__device__ __forceinline__ float vary(float a, u32 i) { return a + i * 0x1p-20f; }
__device__ __forceinline__ double vary(double a, u32 i) { return a + i * 0x1p-20; }

__device__ __forceinline__ u32 bits(u32 x) { return x; }
__device__ __forceinline__ u32 bits(u64 x) { return u32(x) ^ u32(x >> 32); }
__device__ __forceinline__ u32 bits(float x) { return __float_as_uint(x); }
__device__ __forceinline__ u32 bits(double x) { return __double2hiint(x) ^ __double2loint(x); }
