// The power of two as the special-function unit gives it, without the scaling that keeps subnormal numbers: those are 0.
// A macro, so that the instruction belongs to the line of the kernel that uses it.
#pragma once

#include "case.cuh"

#ifdef GPUPROF_HOST
#define EXP2(power, exponent) ((power) = exp2f(exponent))
#else
#define EXP2(power, exponent) asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent))
#endif
