// One atomic operation, whose PTX name is the parameter OPERATION: add.u32, add.noftz.f16x2, cas.b64 and so on.
#pragma once
#include "probe.cuh"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#ifndef SEMANTICS
#define SEMANTICS relaxed.gpu
#endif
#define ATOM_GLOBAL "atom." TEXT(SEMANTICS) ".global." TEXT(OPERATION)
#define RED_GLOBAL "red." TEXT(SEMANTICS) ".global." TEXT(OPERATION)
#define ATOM_SHARED "atom.shared." TEXT(OPERATION)

__device__ constexpr bool named(const char *part) {
    for (const char *name = TEXT(OPERATION); *name; ++name) {
        int i = 0;
        while (part[i] && name[i] == part[i]) ++i;
        if (!part[i]) return true;
    }
    return false;
}

template <bool WIDE> struct Bits { typedef u32 Type; };
template <> struct Bits<true> { typedef u64 Type; };
typedef Bits<named("64")>::Type Value;

// What to add in turn: always 1, so that the sum modulo 2^32 or 2^64 is the number of operations; for floats 1 and −1,
// whose sums stay small and exact, and end at 0. `one` comes from the host, so that the compiler does not know it.
struct Operands {
    Value first, second;
};

__device__ __forceinline__ Operands operands(u32 one) {
    if (named("f32")) return {(Value)one * 0x3f800000u, (Value)one * 0xbf800000u};
    if (named("f16x2")) return {(Value)one * 0x3c003c00u, (Value)one * 0xbc00bc00u};
    return {(Value)one, (Value)one};
}

__device__ __forceinline__ u32 atom(u64 address, u32 value) {
    u32 old;
    asm volatile(ATOM_GLOBAL " %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
    return old;
}

__device__ __forceinline__ u64 atom(u64 address, u64 value) {
    u64 old;
    asm volatile(ATOM_GLOBAL " %0, [%1], %2;" : "=l"(old) : "l"(address), "l"(value) : "memory");
    return old;
}

__device__ __forceinline__ u32 atom(u32 address, u32 value) {
    u32 old;
    asm volatile(ATOM_SHARED " %0, [%1], %2;" : "=r"(old) : "r"(address), "r"(value) : "memory");
    return old;
}

__device__ __forceinline__ u64 atom(u32 address, u64 value) {
    u64 old;
    asm volatile(ATOM_SHARED " %0, [%1], %2;" : "=l"(old) : "r"(address), "l"(value) : "memory");
    return old;
}

__device__ __forceinline__ u32 swap(u64 address, u32 expected, u32 value) {
    u32 old;
    asm volatile(ATOM_GLOBAL " %0, [%1], %2, %3;" : "=r"(old) : "l"(address), "r"(expected), "r"(value) : "memory");
    return old;
}

__device__ __forceinline__ u64 swap(u64 address, u64 expected, u64 value) {
    u64 old;
    asm volatile(ATOM_GLOBAL " %0, [%1], %2, %3;" : "=l"(old) : "l"(address), "l"(expected), "l"(value) : "memory");
    return old;
}

__device__ __forceinline__ u32 swap(u32 address, u32 expected, u32 value) {
    u32 old;
    asm volatile(ATOM_SHARED " %0, [%1], %2, %3;" : "=r"(old) : "r"(address), "r"(expected), "r"(value) : "memory");
    return old;
}

__device__ __forceinline__ u64 swap(u32 address, u64 expected, u64 value) {
    u64 old;
    asm volatile(ATOM_SHARED " %0, [%1], %2, %3;" : "=l"(old) : "r"(address), "l"(expected), "l"(value) : "memory");
    return old;
}

__device__ __forceinline__ void reduce(u64 address, u32 value) {
    asm volatile(RED_GLOBAL " [%0], %1;" : : "l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void reduce(u64 address, u64 value) {
    asm volatile(RED_GLOBAL " [%0], %1;" : : "l"(address), "l"(value) : "memory");
}

// The cell of a thread. A warp uses `per_warp` cells, a power of two; each warp has its own, or all have the same.
__device__ __forceinline__ u32 cell_of(u32 thread, u32 per_warp, u32 common) {
    return (common ? 0 : thread / 32 * 32) + (thread % 32 & (per_warp - 1));
}

// Which operand comes first: neighbours and warps that share a cell take turns, so that sums of floats stay small.
__device__ __forceinline__ bool begins_with_second(u32 thread) {
    return (thread / 2 ^ thread / 32) & 1;
}
