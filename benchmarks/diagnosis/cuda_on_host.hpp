// The part of CUDA C++ that kernels of microkernels/bottlenecks need, on the host's processor. For host_run.py.
//
// Blocks run one after the other, in order. The threads of a block are fibers on one thread of the system: each runs
// until it meets others (a barrier, a shuffle, a vote) and waits there until all of them have come. So a run is
// deterministic, and a thread that waits for something that cannot come is found at once.
// Shared memory holds 0xCB bytes before each block. An index beyond an array, a misaligned access, an address outside
// of the buffers and a kernel that does not end are reported with thread, block and line.
// What it does not do: run lanes of a warp in step between two meetings, or round as the GPU's fast functions do.
//
// Three parts: what kernels see; what their versions for the host (`#ifdef GPUPROF_HOST`) may use besides, in the
// namespace `on_host`; and, where GPUPROF_HOST_RUNTIME is defined, the fibers themselves, compiled once.
#pragma once

#include <stddef.h>
#include <stdint.h>

// -------------------------------------------------------------------------------------------------------- vector types

#define ON_HOST_VECTORS(type, name, two, four)                                                                         \
    struct name##1 { type x; };                                                                                        \
    struct alignas(two) name##2 { type x, y; };                                                                        \
    struct name##3 { type x, y, z; };                                                                                  \
    struct alignas(four) name##4 { type x, y, z, w; };                                                                 \
    static inline name##1 make_##name##1(type x) { return {x}; }                                                       \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                            \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                                 \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

ON_HOST_VECTORS(signed char, char, 2, 4)
ON_HOST_VECTORS(unsigned char, uchar, 2, 4)
ON_HOST_VECTORS(short, short, 4, 8)
ON_HOST_VECTORS(unsigned short, ushort, 4, 8)
ON_HOST_VECTORS(int, int, 8, 16)
ON_HOST_VECTORS(unsigned int, uint, 8, 16)
ON_HOST_VECTORS(long, long, 16, 16)
ON_HOST_VECTORS(unsigned long, ulong, 16, 16)
ON_HOST_VECTORS(long long, longlong, 16, 16)
ON_HOST_VECTORS(unsigned long long, ulonglong, 16, 16)
ON_HOST_VECTORS(float, float, 8, 16)
ON_HOST_VECTORS(double, double, 16, 16)
#undef ON_HOST_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return {x, y, z}; }
};

// ------------------------------------------------------------------------------------------------------------ meetings

namespace on_host {

typedef unsigned int u32;
typedef unsigned long long u64;

// What the runtime keeps of a thread. Kernels read `thread`.
struct Fiber {
    void *stack;
    uint3 thread;
    u32 index;
    u64 value, result;
    u32 mask, source, kind, state, spins;
    const char *call, *file;
    int line;
};

enum Meeting : u32 {
    SYNC_WARP, SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, BALLOT, MATCH_ANY, MATCH_ALL, GATHER, ACTIVE,
    ADD, MIN, MAX, MIN_SIGNED, MAX_SIGNED, AND, OR, XOR,
    BARRIER, BARRIER_COUNT, BARRIER_AND, BARRIER_OR,
};

extern Fiber *now;
extern uint3 block_index;
extern dim3 block_shape, grid_shape;
extern char dynamic_shared[];

u64 meet_warp(Meeting kind, u32 mask, u64 value, u32 source, const char *call, const char *file, int line);
u32 meet_block(Meeting kind, int predicate, const char *file, int line);
void yield();
u64 ticks();
u64 shared_offset(const void *address);
void *shared_address(u64 offset);
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void fail_at(const char *told, const char *file, int line);

// Arrive at barrier `id` (1 to 15) of so many threads, as PTX's `barrier.sync id, threads`.
void barrier(u32 id, u32 threads, const char *file = __builtin_FILE(), int line = __builtin_LINE());
// The same without waiting, as PTX's `barrier.arrive`.
void arrive(u32 id, u32 threads);

static inline u32 lane() { return now->index & 31; }
static inline u32 warp() { return now->index >> 5; }

// A thread that waits in a loop for another one lets it run now and then.
static inline void spin() {
    if ((++now->spins & 31) == 0)
        yield();
}

template <class T> static inline u64 to_bits(const T &value) {
    static_assert(sizeof(T) <= 8, "lanes exchange at most 8 bytes");
    u64 bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <class T> static inline T from_bits(u64 bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

// What each of the 32 lanes gives, for all lanes; all of the warp must take part.
template <class T>
static inline void gather(T mine, T (&all)[32], const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    u64 exchange[33];
    exchange[32] = to_bits(mine);
    meet_warp(GATHER, 0xffffffffu, (u64)(uintptr_t)exchange, 0, "gather", file, line);
    for (int i = 0; i < 32; i++)
        all[i] = from_bits<T>(exchange[i]);
}

static inline float f32_of_bf16(unsigned short bits) { return from_bits<float>((u64)bits << 16); }

static inline unsigned short bf16_of_f32(float value) {
    const u32 bits = (u32)to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static inline float f32_of_f16(unsigned short bits) {
    const u32 sign = (u32)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31)
        return from_bits<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        const float small = (float)fraction * 5.9604644775390625e-8f;
        return sign ? -small : small;
    }
    return from_bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

// To the nearest, halves to even.
static inline unsigned short f16_of_f32(float value) {
    const u32 bits = (u32)to_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return 0x7fff;
    if (size >= 0x477ff000u)
        return (unsigned short)(sign | 0x7c00);
    if (size < 0x38800000u)
        return (unsigned short)(sign | (u32)__builtin_nearbyintf(from_bits<float>(size) * 16777216.0f));
    return (unsigned short)(sign | ((size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13));
}

// TF32 keeps 10 bits of the fraction; halves away from zero, as PTX's `cvt.rna.tf32.f32`.
static inline u32 tf32_of_f32(float value) { return ((u32)to_bits(value) + 0x1000u) & 0xffffe000u; }

}  // namespace on_host

#ifndef GPUPROF_HOST_RUNTIME

#include <assert.h>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <math.h>
#include <stdlib.h>

// ------------------------------------------------------------------------------------------------------- words of CUDA
// `__global__`, `__shared__` and `__cluster_dims__` stay as they are: host_run.py looks for them.

#define __device__
#define __host__
#define __constant__
#define __managed__
#define __restrict __restrict__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __inline_hint__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

#define threadIdx (::on_host::now->thread)
#define blockIdx (::on_host::block_index)
#define blockDim (::on_host::block_shape)
#define gridDim (::on_host::grid_shape)
static constexpr int warpSize = 32;

// What a kernel promises the compiler is checked here.
#undef assert
#define ON_HOST_CHECK(what, condition)                                                                                 \
    ((condition) ? (void)0 : ::on_host::fail_at(what "(" #condition ") does not hold", __FILE__, __LINE__))
#define assert(condition) ON_HOST_CHECK("assert", condition)
#define __assume(condition) ON_HOST_CHECK("__assume", condition)
#define __builtin_assume(condition) ON_HOST_CHECK("__builtin_assume", condition)
#define __trap() ::on_host::fail_at("__trap() is reached", __FILE__, __LINE__)
#define clock() ((long)::on_host::ticks())

static inline long long clock64() { return (long long)on_host::ticks(); }
static inline unsigned long long globaltimer() { return on_host::ticks(); }
static inline void __nanosleep(unsigned) { on_host::yield(); }

// ------------------------------------------------------------------------------------------------------------ barriers

#define ON_HOST_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(ON_HOST_PLACE) { on_host::meet_block(on_host::BARRIER, 0, file, line); }
static inline int __syncthreads_count(int predicate, ON_HOST_PLACE) {
    return (int)on_host::meet_block(on_host::BARRIER_COUNT, predicate, file, line);
}
static inline int __syncthreads_and(int predicate, ON_HOST_PLACE) {
    return (int)on_host::meet_block(on_host::BARRIER_AND, predicate, file, line);
}
static inline int __syncthreads_or(int predicate, ON_HOST_PLACE) {
    return (int)on_host::meet_block(on_host::BARRIER_OR, predicate, file, line);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, ON_HOST_PLACE) {
    on_host::meet_warp(on_host::SYNC_WARP, mask, 0, 0, "__syncwarp", file, line);
}
static inline void __threadfence() { on_host::spin(); }
static inline void __threadfence_block() { on_host::spin(); }
static inline void __threadfence_system() { on_host::spin(); }

// ----------------------------------------------------------------------------------------------------- shuffles, votes
// A lane that reads from one that does not take part gets 0xCB bytes.

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, ON_HOST_PLACE) {
    const unsigned lane = on_host::lane(), from = (lane & ~(width - 1)) | (source & (width - 1));
    return on_host::from_bits<T>(
        on_host::meet_warp(on_host::SHUFFLE, mask, on_host::to_bits(value), from, "__shfl_sync", file, line));
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, ON_HOST_PLACE) {
    const unsigned lane = on_host::lane(), from = (lane & (width - 1)) < delta ? lane : lane - delta;
    return on_host::from_bits<T>(
        on_host::meet_warp(on_host::SHUFFLE_UP, mask, on_host::to_bits(value), from, "__shfl_up_sync", file, line));
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, ON_HOST_PLACE) {
    const unsigned lane = on_host::lane(), from = (lane & (width - 1)) + delta >= (unsigned)width ? lane : lane + delta;
    return on_host::from_bits<T>(
        on_host::meet_warp(on_host::SHUFFLE_DOWN, mask, on_host::to_bits(value), from, "__shfl_down_sync", file, line));
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, ON_HOST_PLACE) {
    const unsigned lane = on_host::lane(), other = lane ^ bits, from = other > (lane | (width - 1)) ? lane : other;
    return on_host::from_bits<T>(
        on_host::meet_warp(on_host::SHUFFLE_XOR, mask, on_host::to_bits(value), from, "__shfl_xor_sync", file, line));
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, ON_HOST_PLACE) {
    return (unsigned)on_host::meet_warp(on_host::BALLOT, mask, predicate != 0, 0, "__ballot_sync", file, line);
}
static inline int __any_sync(unsigned mask, int predicate, ON_HOST_PLACE) {
    return on_host::meet_warp(on_host::OR, mask, predicate != 0, 0, "__any_sync", file, line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, ON_HOST_PLACE) {
    return on_host::meet_warp(on_host::AND, mask, predicate != 0, 0, "__all_sync", file, line) != 0;
}
// The lanes that come here while all others of the warp wait elsewhere or have ended.
static inline unsigned __activemask(ON_HOST_PLACE) {
    return (unsigned)on_host::meet_warp(on_host::ACTIVE, 0, 0, 0, "__activemask", file, line);
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T value, ON_HOST_PLACE) {
    return (unsigned)on_host::meet_warp(
        on_host::MATCH_ANY, mask, on_host::to_bits(value), 0, "__match_any_sync", file, line);
}
template <class T> static inline unsigned __match_all_sync(unsigned mask, T value, int *same, ON_HOST_PLACE) {
    const unsigned found = (unsigned)on_host::meet_warp(
        on_host::MATCH_ALL, mask, on_host::to_bits(value), 0, "__match_all_sync", file, line);
    *same = found != 0;
    return found;
}

#define ON_HOST_REDUCE(name, type, kind)                                                                               \
    static inline type name(unsigned mask, type value, ON_HOST_PLACE) {                                                \
        return (type)on_host::meet_warp(on_host::kind, mask, (unsigned long long)value, 0, #name, file, line);         \
    }
ON_HOST_REDUCE(__reduce_add_sync, unsigned, ADD)
ON_HOST_REDUCE(__reduce_add_sync, int, ADD)
ON_HOST_REDUCE(__reduce_min_sync, unsigned, MIN)
ON_HOST_REDUCE(__reduce_min_sync, int, MIN_SIGNED)
ON_HOST_REDUCE(__reduce_max_sync, unsigned, MAX)
ON_HOST_REDUCE(__reduce_max_sync, int, MAX_SIGNED)
ON_HOST_REDUCE(__reduce_and_sync, unsigned, AND)
ON_HOST_REDUCE(__reduce_or_sync, unsigned, OR)
ON_HOST_REDUCE(__reduce_xor_sync, unsigned, XOR)
#undef ON_HOST_REDUCE

// ------------------------------------------------------------------------------------------------------------- atomics

namespace on_host {
template <class T> struct Same {
    typedef T Type;
};
template <class T> using same = typename Same<T>::Type;
}  // namespace on_host

#define ON_HOST_ATOMIC_OF(name, after)                                                                                 \
    template <class T> static inline T name(T *address, on_host::same<T> value) {                                      \
        on_host::spin();                                                                                               \
        const T before = *address;                                                                                     \
        *address = (after);                                                                                            \
        return before;                                                                                                 \
    }
#define ON_HOST_ATOMIC(name, after)                                                                                    \
    ON_HOST_ATOMIC_OF(name, after)                                                                                     \
    ON_HOST_ATOMIC_OF(name##_block, after)                                                                             \
    ON_HOST_ATOMIC_OF(name##_system, after)
ON_HOST_ATOMIC(atomicAdd, before + value)
ON_HOST_ATOMIC(atomicSub, before - value)
ON_HOST_ATOMIC(atomicMax, before < value ? value : before)
ON_HOST_ATOMIC(atomicMin, value < before ? value : before)
ON_HOST_ATOMIC(atomicExch, value)
ON_HOST_ATOMIC(atomicAnd, before & value)
ON_HOST_ATOMIC(atomicOr, before | value)
ON_HOST_ATOMIC(atomicXor, before ^ value)
ON_HOST_ATOMIC(atomicInc, before >= value ? 0 : before + 1)
ON_HOST_ATOMIC(atomicDec, before == 0 || before > value ? value : before - 1)
#undef ON_HOST_ATOMIC
#undef ON_HOST_ATOMIC_OF

#define ON_HOST_SWAP(name)                                                                                             \
    template <class T> static inline T name(T *address, on_host::same<T> compare, on_host::same<T> value) {            \
        on_host::spin();                                                                                               \
        const T before = *address;                                                                                     \
        if (before == compare)                                                                                         \
            *address = value;                                                                                          \
        return before;                                                                                                 \
    }
ON_HOST_SWAP(atomicCAS)
ON_HOST_SWAP(atomicCAS_block)
ON_HOST_SWAP(atomicCAS_system)
#undef ON_HOST_SWAP

#define ON_HOST_ATOMIC_VECTOR(type, ...)                                                                               \
    static inline type atomicAdd(type *address, type value) {                                                          \
        const type before = *address;                                                                                  \
        *address = {__VA_ARGS__};                                                                                      \
        return before;                                                                                                 \
    }
ON_HOST_ATOMIC_VECTOR(float2, before.x + value.x, before.y + value.y)
ON_HOST_ATOMIC_VECTOR(float4, before.x + value.x, before.y + value.y, before.z + value.z, before.w + value.w)
#undef ON_HOST_ATOMIC_VECTOR

// -------------------------------------------------------------------------------------------- loads, stores, addresses

#define ON_HOST_LOAD(name)                                                                                             \
    template <class T> static inline T name(const T *address) { return *address; }
ON_HOST_LOAD(__ldg)
ON_HOST_LOAD(__ldcs)
ON_HOST_LOAD(__ldcg)
ON_HOST_LOAD(__ldca)
ON_HOST_LOAD(__ldcv)
ON_HOST_LOAD(__ldlu)
#undef ON_HOST_LOAD
#define ON_HOST_STORE(name)                                                                                            \
    template <class T> static inline void name(T *address, on_host::same<T> value) { *address = value; }
ON_HOST_STORE(__stcs)
ON_HOST_STORE(__stcg)
ON_HOST_STORE(__stwb)
ON_HOST_STORE(__stwt)
#undef ON_HOST_STORE

// An offset in the block's shared memory, static arrays first.
static inline size_t __cvta_generic_to_shared(const void *address) { return on_host::shared_offset(address); }
static inline void *__cvta_shared_to_generic(size_t offset) { return on_host::shared_address(offset); }
static inline size_t __cvta_generic_to_global(const void *address) { return (size_t)address; }
static inline void *__cvta_global_to_generic(size_t address) { return (void *)address; }
static inline unsigned __isShared(const void *address) { return on_host::shared_offset(address) != ~0ull; }
static inline unsigned __isGlobal(const void *address) { return !__isShared(address); }

// ------------------------------------------------------------------------------------------------------- whole numbers

// min and max of two numbers have the type that their sum has.
namespace on_host {
template <class T> struct IsNumber {
    static constexpr bool value = __is_enum(T);
};
#define ON_HOST_IS_NUMBER(...)                                                                                         \
    template <> struct IsNumber<__VA_ARGS__> {                                                                         \
        static constexpr bool value = true;                                                                            \
    };
ON_HOST_IS_NUMBER(bool)
ON_HOST_IS_NUMBER(char)
ON_HOST_IS_NUMBER(signed char)
ON_HOST_IS_NUMBER(unsigned char)
ON_HOST_IS_NUMBER(short)
ON_HOST_IS_NUMBER(unsigned short)
ON_HOST_IS_NUMBER(int)
ON_HOST_IS_NUMBER(unsigned)
ON_HOST_IS_NUMBER(long)
ON_HOST_IS_NUMBER(unsigned long)
ON_HOST_IS_NUMBER(long long)
ON_HOST_IS_NUMBER(unsigned long long)
ON_HOST_IS_NUMBER(float)
ON_HOST_IS_NUMBER(double)
#undef ON_HOST_IS_NUMBER
template <bool numbers, class A, class B> struct Both {};
template <class A, class B> struct Both<true, A, B> {
    typedef decltype(A() + B()) Type;
};
template <class A, class B> using both = typename Both<IsNumber<A>::value && IsNumber<B>::value, A, B>::Type;
}  // namespace on_host

// A number beats a NaN, as on the GPU.
template <class A, class B> static constexpr on_host::both<A, B> min(A a, B b) {
    typedef on_host::both<A, B> T;
    return (T)b != (T)b || (T)a < (T)b ? (T)a : (T)b;
}
template <class A, class B> static constexpr on_host::both<A, B> max(A a, B b) {
    typedef on_host::both<A, B> T;
    return (T)b != (T)b || (T)b < (T)a ? (T)a : (T)b;
}
static inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
static inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long turned = 0;
    for (int i = 0; i < 64; i++)
        turned |= (x >> i & 1) << (63 - i);
    return turned;
}
static inline unsigned __brev(unsigned x) { return (unsigned)(__brevll(x) >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
static inline unsigned __sad(int a, int b, unsigned c) { return (a < b ? (unsigned)b - a : (unsigned)a - b) + c; }
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a < b ? b - a : a - b) + c; }
static inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
static inline int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
static inline unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
static inline unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned picked = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned nibble = selector >> 4 * i & 15, byte = (unsigned)(bytes >> 8 * (nibble & 7)) & 255;
        picked |= (nibble & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return picked;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by);
}
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++)
        c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++)
        c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return c;
}

// -------------------------------------------------------------------------------------------------------------- floats

static inline unsigned __float_as_uint(float x) { return on_host::from_bits<unsigned>(on_host::to_bits(x)); }
static inline int __float_as_int(float x) { return on_host::from_bits<int>(on_host::to_bits(x)); }
static inline float __uint_as_float(unsigned x) { return on_host::from_bits<float>(x); }
static inline float __int_as_float(int x) { return on_host::from_bits<float>((unsigned)x); }
static inline long long __double_as_longlong(double x) { return (long long)on_host::to_bits(x); }
static inline double __longlong_as_double(long long x) { return on_host::from_bits<double>((unsigned long long)x); }
static inline int __double2hiint(double x) { return (int)(on_host::to_bits(x) >> 32); }
static inline int __double2loint(double x) { return (int)on_host::to_bits(x); }
static inline double __hiloint2double(int high, int low) {
    return on_host::from_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

#define ON_HOST_CONVERT(from, to, name)                                                                                \
    static inline to __##name##_rz(from x) { return on_host::whole<to>(__builtin_trunc((double)x)); }                  \
    static inline to __##name##_rd(from x) { return on_host::whole<to>(__builtin_floor((double)x)); }                  \
    static inline to __##name##_ru(from x) { return on_host::whole<to>(__builtin_ceil((double)x)); }                   \
    static inline to __##name##_rn(from x) { return on_host::whole<to>(__builtin_nearbyint((double)x)); }
namespace on_host {
// What does not fit becomes the nearest number that does, and NaN zero, as on the GPU.
template <class T> static inline T whole(double x) {
    const T least = (T)-1 < (T)0 ? (T)(1ull << (8 * sizeof(T) - 1)) : (T)0, most = (T)~least;
    return x != x ? (T)0 : x <= (double)least ? least : x >= (double)most ? most : (T)x;
}
}  // namespace on_host
ON_HOST_CONVERT(float, int, float2int)
ON_HOST_CONVERT(float, unsigned, float2uint)
ON_HOST_CONVERT(float, long long, float2ll)
ON_HOST_CONVERT(float, unsigned long long, float2ull)
ON_HOST_CONVERT(double, int, double2int)
ON_HOST_CONVERT(double, unsigned, double2uint)
ON_HOST_CONVERT(double, long long, double2ll)
ON_HOST_CONVERT(double, unsigned long long, double2ull)
#undef ON_HOST_CONVERT
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
static inline float __double2float_rn(double x) { return (float)x; }

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline double __drcp_rn(double x) { return 1.0 / x; }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float x) { return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; }
// The C library has these names for itself.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __powf powf
#define __sincosf sincosf
static inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline float rcbrtf(float x) { return (float)(1.0 / cbrt((double)x)); }
static inline double sinpi(double x) { return sin(3.14159265358979323846 * fmod(x, 2.0)); }
static inline double cospi(double x) { return cos(3.14159265358979323846 * fmod(x, 2.0)); }
static inline float sinpif(float x) { return (float)sinpi((double)x); }
static inline float cospif(float x) { return (float)cospi((double)x); }
static inline void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
static inline void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
static inline float norm3df(float a, float b, float c) {
    return (float)sqrt((double)a * a + (double)b * b + (double)c * c);
}
static inline float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
static inline float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }
static inline float normcdff(float x) { return 0.5f * erfcf(-0.70710678f * x); }

// ---------------------------------------------------------------------------------------------------- calls of kernels

namespace on_host {

// `p`, `i4`, `u8`, `f4`, …, `s12` for a struct: the kind of a kernel's argument, as host_run.py compares it.
template <class T> struct Kind {
    static void write(char *text) {
        char kind = 's';
        if constexpr (IsNumber<T>::value)
            kind = T(0.5f) != T(0) && sizeof(T) > 1 ? 'f' : T(-1) < T(0) ? 'i' : 'u';
        sprintf(text, "%c%d ", kind, (int)sizeof(T));
    }
};
template <class T> struct Kind<T *> {
    static void write(char *text) { strcpy(text, "p "); }
};

template <class... P> void signature(void (*)(P...), char *text) {
    *text = 0;
    (Kind<P>::write(text + strlen(text)), ...);
}

template <int... I> struct Places {};

template <class T> T loaded(const void *argument) {
    alignas(T) char bytes[sizeof(T)];
    memcpy(bytes, argument, sizeof(T));
    return *(T *)bytes;
}

template <class... P, int... I> void call(void (*kernel)(P...), void **arguments, Places<I...>) {
    kernel(loaded<P>(arguments[I])...);
}

template <class... P> void call(void (*kernel)(P...), void **arguments) {
    call(kernel, arguments, Places<__integer_pack((int)sizeof...(P))...>());
}

}  // namespace on_host

#else  // GPUPROF_HOST_RUNTIME

// --------------------------------------------------------------------------------------------------------- the runtime

#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define ON_HOST_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];  // where this library begins; the linker's

namespace on_host {

static const u32 MOST_THREADS = 1024, MOST_BUFFERS = 64, MOST_SHARED = 256 << 10, LARGEST_PAGE = 64 << 10;
static const size_t STACK = 256 << 10, GUARD = 1 << 20, ALIGNMENT = 256;
static const unsigned char GARBAGE = 0xcb;
static const u64 GARBAGE_BITS = 0xcbcbcbcbcbcbcbcbull;

enum State : u32 { READY, WAITS_FOR_LANES, WAITS_FOR_BLOCK, ENDED };

// As in host_run.py.
struct Launch {
    u32 grid[3], block[3], shared_bytes, backwards;
    double seconds;
};
struct Failure {
    u64 place;  // of the instruction, from the beginning of the library; 0: the text says it
    char text[2000];
};

// Lanes that have come to the same meeting.
struct Group {
    u32 kind, mask, arrived;
};
struct Warp {
    u32 live, waiting, count;
    Group groups[32];
};
struct Buffer {
    const char *name;
    char *map, *start;
    size_t mapped, page_start, bytes, end;  // from `page_start` to `end` there is memory
};

Fiber *now;
uint3 block_index;
dim3 block_shape, grid_shape;
alignas(LARGEST_PAGE) char dynamic_shared[MOST_SHARED + LARGEST_PAGE];

static Fiber fibers[MOST_THREADS];
static Warp warps[32];
static u32 barrier_arrived[16], threads, live;
static unsigned short ready[2 * MOST_THREADS];
static u32 first_ready, last_ready;
static Fiber scheduler;
static char *stacks;
static Buffer buffers[MOST_BUFFERS];
static u32 buffer_count;
static char *static_shared;
static size_t static_shared_bytes;
static thread_local char of_this_library;
static Launch launched;
static Failure *failure;
static sigjmp_buf escape;
static volatile pid_t running;
static u64 tick;
static void (*kernel)(void **);
static void **kernel_arguments;

// ----------------------------------------------------------------------------------------------------------- switching

static void fiber_start();

#if defined(__x86_64__) && !defined(ON_HOST_UCONTEXT)
extern "C" __attribute__((visibility("hidden"))) void on_host_switch(void **from, void *to);
asm(R"(
    .text
    .globl on_host_switch
    .hidden on_host_switch
    .type on_host_switch, @function
on_host_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size on_host_switch, .-on_host_switch
)");

static void switch_to(Fiber *from, Fiber *to) {
    now = to;
    on_host_switch(&from->stack, to->stack);
}

static void prepare(Fiber *fiber, char *top) {
    void **stack = (void **)top;
    *--stack = nullptr;  // where fiber_start would return to
    *--stack = (void *)fiber_start;
    for (int saved = 0; saved < 6; saved++)
        *--stack = nullptr;
    fiber->stack = stack;
}
#else
static ucontext_t contexts[MOST_THREADS + 1];

static ucontext_t *context_of(Fiber *fiber) { return &contexts[fiber == &scheduler ? MOST_THREADS : fiber->index]; }

static void switch_to(Fiber *from, Fiber *to) {
    now = to;
    swapcontext(context_of(from), context_of(to));
}

static void prepare(Fiber *fiber, char *top) {
    ucontext_t *context = context_of(fiber);
    getcontext(context);
    context->uc_link = nullptr;
    context->uc_stack.ss_sp = stacks + fiber->index * STACK;
    context->uc_stack.ss_size = top - (stacks + fiber->index * STACK);
    makecontext(context, fiber_start, 0);
}
#endif

// ------------------------------------------------------------------------------------------------------------- failing

static void stop() { siglongjmp(escape, 1); }

void fail(const char *format, ...) {
    const uint3 t = now->thread, b = block_index;
    int used = snprintf(failure->text, sizeof failure->text, "thread (%u, %u, %u) of block (%u, %u, %u): ", t.x, t.y,
                        t.z, b.x, b.y, b.z);
    va_list values;
    va_start(values, format);
    vsnprintf(failure->text + used, sizeof failure->text - used, format, values);
    va_end(values);
    stop();
    __builtin_unreachable();
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void fail_at(const char *told, const char *file, int line) { fail("%s (%s:%d)", told, base_name(file), line); }

static bool same_place(const Fiber &a, const Fiber &b) {
    return a.state == b.state && a.line == b.line && a.mask == b.mask && !strcmp(a.call, b.call)
        && !strcmp(a.file, b.file);
}

// Nobody can go on: say who waits where.
static void deadlock() {
    char *text = failure->text, *const end = text + sizeof failure->text - 400;
    const uint3 b = block_index;
    text += sprintf(text, "block (%u, %u, %u) cannot go on:", b.x, b.y, b.z);
    static bool told[MOST_THREADS];
    memset(told, 0, sizeof told);
    for (u32 i = 0; i < threads && text < end; i++) {
        const Fiber &fiber = fibers[i];
        if (told[i] || fiber.state == ENDED)
            continue;
        text += sprintf(text, "%s", i && text[-1] != ':' ? "; threads" : " threads");
        for (u32 from = i; from < threads && text < end; from++) {
            if (told[from] || !same_place(fibers[from], fiber))
                continue;
            u32 to = from;
            for (; to < threads && !told[to] && same_place(fibers[to], fiber); to++)
                told[to] = true;
            text += to - from > 1 ? sprintf(text, " %u-%u", from, to - 1) : sprintf(text, " %u", from);
            from = to - 1;
        }
        text += snprintf(text, 120, " wait at %s", fiber.call);
        if (fiber.state == WAITS_FOR_LANES)
            text += sprintf(text, " with mask 0x%x", fiber.mask);
        text += snprintf(text, 120, " (%s:%d)", base_name(fiber.file), fiber.line);
    }
    if (text >= end)
        strcpy(text, " …");
    else if (live < threads)
        sprintf(text, "; %u of %u threads have ended", threads - live, threads);
    stop();
}

// Where an address is, in words.
static void tell_address(char *text, size_t room, const char *address) {
    for (u32 i = 0; i < buffer_count; i++) {
        const Buffer &buffer = buffers[i];
        if (address < buffer.map || address >= buffer.map + buffer.mapped)
            continue;
        if (address < buffer.start)
            snprintf(text, room, "%zu bytes before the beginning of %s", (size_t)(buffer.start - address), buffer.name);
        else
            snprintf(text, room, "%zu bytes past the end of %s", (size_t)(address - buffer.start) - buffer.bytes,
                     buffer.name);
        return;
    }
    const char *shared_end = dynamic_shared + launched.shared_bytes;
    if (stacks && address >= stacks && address < stacks + threads * STACK)
        snprintf(text, room, "beyond its stack of %zu KiB: too much local memory", STACK >> 10);
    else if (address >= shared_end && address < dynamic_shared + sizeof dynamic_shared)
        snprintf(text, room, "%zu bytes past the end of dynamic shared memory, which is %u bytes long",
                 (size_t)(address - shared_end), launched.shared_bytes);
    else
        snprintf(text, room, "at address %p, which is in no buffer", (const void *)address);
}

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGVTALRM};
static const int SIGNAL_COUNT = sizeof SIGNALS / sizeof *SIGNALS;
static struct sigaction actions_before[SIGNAL_COUNT];

static void on_signal(int number, siginfo_t *info, void *context) {
    if (running != (pid_t)syscall(SYS_gettid)) {  // another thread of the process: not ours
        for (int i = 0; i < SIGNAL_COUNT; i++)
            if (SIGNALS[i] == number)
                sigaction(number, &actions_before[i], nullptr);
        return;
    }
    const char *act = "accesses memory";
    const char *place = nullptr;
#if defined(__x86_64__)
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    place = (const char *)registers[REG_RIP];
    act = registers[REG_ERR] & 2 ? "writes" : "reads";
#elif defined(__aarch64__)
    place = (const char *)((ucontext_t *)context)->uc_mcontext.pc;
#endif
    const uint3 t = now->thread, b = block_index;
    char *text = failure->text;
    text += sprintf(text, "thread (%u, %u, %u) of block (%u, %u, %u) ", t.x, t.y, t.z, b.x, b.y, b.z);
    const size_t room = sizeof failure->text - 100;
    if (number == SIGSEGV || number == SIGBUS) {
        text += sprintf(text, "%s ", act);
        tell_address(text, room, (const char *)info->si_addr);
    } else if (number == SIGFPE)
        sprintf(text, "divides by zero");
    else if (number == SIGVTALRM)
        sprintf(text, "is still running after %g s: the kernel does not end", launched.seconds);
    else
        sprintf(text, "has an index beyond its array's bounds, or an address that is not aligned to its type");
    if (place > __ehdr_start)
        failure->place = (u64)(place - __ehdr_start);
    stop();
}

// ---------------------------------------------------------------------------------------------------------- scheduling

static void make_ready(Fiber *fiber) {
    fiber->state = READY;
    warps[fiber->index >> 5].waiting &= ~(1u << (fiber->index & 31));
    ready[last_ready++ % (2 * MOST_THREADS)] = (unsigned short)fiber->index;
}

// Let the next thread run; returns when this one's turn has come again.
static void next() {
    Fiber *from = now, *to = &scheduler;
    if (first_ready != last_ready)
        to = &fibers[ready[first_ready++ % (2 * MOST_THREADS)]];
    else if (live)
        deadlock();
    if (to != from)
        switch_to(from, to);
}

// The number-th of so many, in the order of this launch.
static u32 in_turn(u32 number, u32 count) { return launched.backwards ? count - 1 - number : number; }

static u64 combined(u32 kind, u64 a, u64 b) {
    const u32 x = (u32)a, y = (u32)b;
    switch (kind) {
    case ADD: return x + y;
    case MIN: return x < y ? x : y;
    case MAX: return x > y ? x : y;
    case MIN_SIGNED: return (int)x < (int)y ? x : y;
    case MAX_SIGNED: return (int)x > (int)y ? x : y;
    case AND: return x & y;
    case OR: return x | y;
    default: return x ^ y;
    }
}

// What a lane learns at a meeting of `arrived` lanes of its warp.
static u64 outcome(const Fiber *lanes, u32 lane, u32 kind, u32 arrived) {
    const Fiber &mine = lanes[lane];
    u64 found = 0;
    switch (kind) {
    case SYNC_WARP: return 0;
    case ACTIVE: return arrived;
    case SHUFFLE: case SHUFFLE_UP: case SHUFFLE_DOWN: case SHUFFLE_XOR:
        return mine.source < 32 && arrived >> mine.source & 1 ? lanes[mine.source].value : GARBAGE_BITS;
    case BALLOT:
        for (u32 i = 0; i < 32; i++)
            found |= arrived >> i & 1 ? lanes[i].value << i : 0;
        return found;
    case MATCH_ANY: case MATCH_ALL:
        for (u32 i = 0; i < 32; i++)
            found |= arrived >> i & 1 && lanes[i].value == mine.value ? 1ull << i : 0;
        return kind == MATCH_ANY || found == arrived ? found : 0;
    case GATHER: {
        u64 *all = (u64 *)(uintptr_t)mine.value;
        for (u32 i = 0; i < 32; i++)
            all[i] = arrived >> i & 1 ? ((u64 *)(uintptr_t)lanes[i].value)[32] : GARBAGE_BITS;
        return 0;
    }
    default: {
        const u32 first = (u32)__builtin_ctz(arrived);
        found = lanes[first].value;
        for (u32 i = first + 1; i < 32; i++)
            if (arrived >> i & 1)
                found = combined(kind, found, lanes[i].value);
        return found;
    }
    }
}

// The lanes of a group go on.
static void complete(u32 warp_index, u32 place) {
    Warp &warp = warps[warp_index];
    const Group group = warp.groups[place];
    warp.groups[place] = warp.groups[--warp.count];
    Fiber *lanes = &fibers[32 * warp_index];
    for (u32 i = 0; i < 32; i++)
        if (group.arrived >> i & 1)
            lanes[i].result = outcome(lanes, i, group.kind, group.arrived);
    for (u32 i = 0; i < 32; i++) {
        const u32 lane = in_turn(i, 32);
        if (group.arrived >> lane & 1)
            make_ready(&lanes[lane]);
    }
}

// A lane has come or ended: let the groups go on that now can.
static void look_at(u32 warp_index) {
    Warp &warp = warps[warp_index];
    for (u32 i = 0; i < warp.count;) {
        const Group &group = warp.groups[i];
        const u32 needed = group.mask & warp.live;
        const bool all = group.kind == ACTIVE ? !(warp.live & ~warp.waiting) : (group.arrived & needed) == needed;
        if (all) {
            complete(warp_index, i);
            i = 0;
        } else
            i++;
    }
}

u64 meet_warp(Meeting kind, u32 mask, u64 value, u32 source, const char *call, const char *file, int line) {
    Fiber *mine = now;
    const u32 lane = mine->index & 31, bit = 1u << lane;
    Warp &warp = warps[mine->index >> 5];
    if (kind != ACTIVE && !(mask & bit))
        fail("%s with mask 0x%x, which lacks its own lane %u (%s:%d)", call, mask, lane, base_name(file), line);
    mine->value = value, mine->source = source, mine->kind = kind, mine->mask = mask;
    mine->call = call, mine->file = file, mine->line = line;
    mine->state = WAITS_FOR_LANES;
    warp.waiting |= bit;
    u32 place = 0;
    while (place < warp.count && (warp.groups[place].kind != kind || warp.groups[place].mask != mask))
        place++;
    if (place == warp.count)
        warp.groups[warp.count++] = {kind, mask, 0};
    Group &group = warp.groups[place];
    group.arrived |= bit;
    if (warp.count > 1 || kind == ACTIVE || (warp.live & ~warp.waiting) == 0)
        look_at(mine->index >> 5);
    else if ((group.arrived & mask & warp.live) == (mask & warp.live))
        complete(mine->index >> 5, place);
    next();
    return mine->result;
}

// All threads that have not ended are at __syncthreads: they go on.
static void open_block_barrier() {
    u32 count = 0;
    const Fiber *leader = nullptr;
    for (u32 i = 0; i < threads; i++) {
        const Fiber &fiber = fibers[i];
        if (i % 32 == 0)
            leader = nullptr;
        if (fiber.state != WAITS_FOR_BLOCK || fiber.source != 0)
            continue;
        count += fiber.value != 0;
        if (!leader)
            leader = &fiber;
        else if (fiber.kind != leader->kind || fiber.line != leader->line) {
            sprintf(failure->text,
                    "block (%u, %u, %u): __syncthreads in divergent code: thread %u waits in line %d of %s, thread %u "
                    "of the same warp in line %d",
                    block_index.x, block_index.y, block_index.z, leader->index, leader->line, base_name(leader->file),
                    fiber.index, fiber.line);
            stop();
        }
    }
    const u32 arrived = barrier_arrived[0];
    barrier_arrived[0] = 0;
    for (u32 i = 0; i < threads; i++) {
        Fiber &fiber = fibers[in_turn(i, threads)];
        if (fiber.state != WAITS_FOR_BLOCK || fiber.source != 0)
            continue;
        fiber.result = fiber.kind == BARRIER_COUNT ? count : fiber.kind == BARRIER_AND ? count == arrived : count != 0;
        make_ready(&fiber);
    }
}

static void wait_at_barrier(u32 id, u32 kind, u64 value, const char *call, const char *file, int line) {
    Fiber *mine = now;
    mine->value = value, mine->source = id, mine->kind = kind, mine->mask = 0;
    mine->call = call, mine->file = file, mine->line = line;
    mine->state = WAITS_FOR_BLOCK;
    Warp &warp = warps[mine->index >> 5];
    warp.waiting |= 1u << (mine->index & 31);
    if (warp.count)
        look_at(mine->index >> 5);
}

u32 meet_block(Meeting kind, int predicate, const char *file, int line) {
    static const char *const CALLS[] = {"__syncthreads", "__syncthreads_count", "__syncthreads_and",
                                        "__syncthreads_or"};
    Fiber *mine = now;
    wait_at_barrier(0, kind, predicate != 0, CALLS[kind - BARRIER], file, line);
    if (++barrier_arrived[0] == live)
        open_block_barrier();
    next();
    return (u32)mine->result;
}

static void open_barrier(u32 id) {
    barrier_arrived[id] = 0;
    for (u32 i = 0; i < threads; i++) {
        Fiber &fiber = fibers[in_turn(i, threads)];
        if (fiber.state == WAITS_FOR_BLOCK && fiber.source == id)
            make_ready(&fiber);
    }
}

void barrier(u32 id, u32 count, const char *file, int line) {
    if (id == 0 || id > 15)
        fail("there is no barrier %u (%s:%d)", id, base_name(file), line);
    wait_at_barrier(id, BARRIER, 0, "on_host::barrier", file, line);
    if (++barrier_arrived[id] == count)
        open_barrier(id);
    next();
}

void arrive(u32 id, u32 count) {
    if (id == 0 || id > 15)
        fail("there is no barrier %u", id);
    if (++barrier_arrived[id] == count)
        open_barrier(id);
}

void yield() {
    make_ready(now);
    next();
}

u64 ticks() {
    spin();
    return tick += 100;
}

static void fiber_start() {
    kernel(kernel_arguments);
    Fiber *mine = now;
    const u32 warp = mine->index >> 5;
    mine->state = ENDED;
    warps[warp].live &= ~(1u << (mine->index & 31));
    live--;
    if (warps[warp].count)
        look_at(warp);
    if (live && barrier_arrived[0] == live)
        open_block_barrier();
    next();
    __builtin_unreachable();
}

// -------------------------------------------------------------------------------------------------------------- memory

static size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

u64 shared_offset(const void *address) {
    const char *place = (const char *)address;
    if (place >= static_shared && place < static_shared + static_shared_bytes)
        return (u64)(place - static_shared);
    if (place >= dynamic_shared && place < dynamic_shared + MOST_SHARED)
        return rounded(static_shared_bytes, 1024) + (u64)(place - dynamic_shared);
    return ~0ull;
}

void *shared_address(u64 offset) {
    return offset < static_shared_bytes ? static_shared + offset
                                        : dynamic_shared + (offset - rounded(static_shared_bytes, 1024));
}

// Shared memory that is declared with its size is `thread_local`: it lies together, where it can be found, and that of
// templates and inline functions too, which a section would not get.
static int find_static_shared(dl_phdr_info *info, size_t, void *) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto &part = info->dlpi_phdr[i];
        char *start = (char *)info->dlpi_tls_data;
        if (part.p_type == PT_TLS && &of_this_library >= start && &of_this_library < start + part.p_memsz) {
            static_shared = start;
            static_shared_bytes = part.p_memsz;
            return 1;
        }
    }
    return 0;
}

static bool untouched(const char *from, const char *to) {
    for (; from < to; from++)
        if ((unsigned char)*from != GARBAGE)
            return false;
    return true;
}

// After each block: has it written where nothing is?
static void look_for_stray_writes() {
    const uint3 b = block_index;
    for (u32 i = 0; i < buffer_count; i++) {
        const Buffer &buffer = buffers[i];
        const bool before = untouched(buffer.map + buffer.page_start, buffer.start);
        if (before && untouched(buffer.start + buffer.bytes, buffer.map + buffer.end))
            continue;
        sprintf(failure->text, "block (%u, %u, %u) has written %s %s", b.x, b.y, b.z,
                before ? "past the end of" : "before the beginning of", buffer.name);
        stop();
    }
    const char *end = dynamic_shared + launched.shared_bytes;
    if (!untouched(end, dynamic_shared + rounded(launched.shared_bytes, (size_t)getpagesize()))) {
        sprintf(failure->text,
                "block (%u, %u, %u) has written past the end of dynamic shared memory, which is %u bytes long", b.x,
                b.y, b.z, launched.shared_bytes);
        stop();
    }
}

// ----------------------------------------------------------------------------------------------------- for host_run.py

// Memory for an argument between two guards; filled with garbage. Null: no memory.
ON_HOST_EXPORT void *gpuprof_buffer(size_t bytes, const char *name) {
    if (buffer_count == MOST_BUFFERS)
        return nullptr;
    const size_t inner = rounded(bytes ? bytes : 1, LARGEST_PAGE), mapped = inner + 2 * GUARD;
    char *map = (char *)mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return nullptr;
    const size_t page = (size_t)getpagesize(), end = GUARD + inner, start = end - rounded(bytes, ALIGNMENT);
    const size_t page_start = start / page * page;
    mprotect(map + page_start, end - page_start, PROT_READ | PROT_WRITE);
    memset(map + page_start, GARBAGE, end - page_start);
    buffers[buffer_count++] = {name, map, map + start, mapped, page_start, bytes, end};
    return map + start;
}

ON_HOST_EXPORT void gpuprof_release() {
    while (buffer_count) {
        const Buffer &buffer = buffers[--buffer_count];
        munmap(buffer.map, buffer.mapped);
    }
}

static bool make_stacks() {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    void *map = mmap(nullptr, threads * STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (map == MAP_FAILED)
        return false;
    stacks = (char *)map;
    for (u32 i = 0; i < threads; i++)
        mprotect(stacks + i * STACK, (size_t)getpagesize(), PROT_NONE);
    return true;
}

static void run_block(uint3 index) {
    block_index = index;
    memset(static_shared, GARBAGE, static_shared_bytes);
    memset(dynamic_shared, GARBAGE, rounded(launched.shared_bytes, (size_t)getpagesize()));
    memset(warps, 0, sizeof warps);
    memset(barrier_arrived, 0, sizeof barrier_arrived);
    first_ready = last_ready = 0;
    live = threads;
    for (u32 number = 0; number < threads; number++) {
        const u32 i = in_turn(number, threads);
        Fiber &fiber = fibers[i];
        fiber.index = i;
        fiber.spins = 0;
        fiber.thread = {i % block_shape.x, i / block_shape.x % block_shape.y, i / block_shape.x / block_shape.y};
        warps[i >> 5].live |= 1u << (i & 31);
        prepare(&fiber, stacks + (i + 1) * STACK - i % 16 * 256);  // not all in the same sets of the cache
        make_ready(&fiber);
    }
    now = &scheduler;
    next();
    look_for_stray_writes();
}

static void run_blocks() {
    for (u32 z = 0; z < launched.grid[2]; z++)
        for (u32 y = 0; y < launched.grid[1]; y++)
            for (u32 x = 0; x < launched.grid[0]; x++)
                run_block({x, y, z});
}

// Whatever happens in a kernel comes back here. 0: all blocks have run.
static int run_caught() {
    if (sigsetjmp(escape, 1))
        return 1;
    run_blocks();
    return 0;
}

static void watch(timer_t *timer, bool *watched) {
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGVTALRM;
    event._sigev_un._tid = running;
    *watched = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, timer) == 0;
    itimerspec limit = {};
    limit.it_value.tv_sec = (time_t)launched.seconds;
    limit.it_value.tv_nsec = (long)((launched.seconds - (double)limit.it_value.tv_sec) * 1e9);
    if (*watched)
        timer_settime(*timer, 0, &limit, nullptr);
}

// Run a kernel with the buffers made before. 0, or 1 and what went wrong.
ON_HOST_EXPORT int gpuprof_launch(void (*called)(void **), void **arguments, const Launch *launch, Failure *told) {
    static char signal_stack[64 << 10];
    kernel = called, kernel_arguments = arguments, launched = *launch, failure = told;
    failure->place = 0, failure->text[0] = 0;
    grid_shape = dim3(launched.grid[0], launched.grid[1], launched.grid[2]);
    block_shape = dim3(launched.block[0], launched.block[1], launched.block[2]);
    threads = block_shape.x * block_shape.y * block_shape.z;
    *(volatile char *)&of_this_library = 0;  // so that this thread has its part
    dl_iterate_phdr(find_static_shared, nullptr);
    if (!make_stacks()) {
        strcpy(failure->text, "no memory for the threads' stacks");
        return 1;
    }
    const size_t page = (size_t)getpagesize(), shared_end = rounded(launched.shared_bytes, page);
    mprotect(dynamic_shared + shared_end, sizeof dynamic_shared - shared_end, PROT_NONE);
    stack_t stack = {}, stack_before;
    stack.ss_sp = signal_stack;
    stack.ss_size = sizeof signal_stack;
    sigaltstack(&stack, &stack_before);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < SIGNAL_COUNT; i++)
        sigaction(SIGNALS[i], &action, &actions_before[i]);
    running = (pid_t)syscall(SYS_gettid);
    timer_t timer;
    bool watched;
    watch(&timer, &watched);
    const int failed = run_caught();
    running = 0;
    if (watched)
        timer_delete(timer);
    for (int i = 0; i < SIGNAL_COUNT; i++)
        sigaction(SIGNALS[i], &actions_before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
    mprotect(dynamic_shared, sizeof dynamic_shared, PROT_READ | PROT_WRITE);
    munmap(stacks, threads * STACK);
    stacks = nullptr;
    return failed;
}

}  // namespace on_host

#endif  // GPUPROF_HOST_RUNTIME
