// Loads and stores of 4, 8, 16 and 32 bytes, each one instruction: in PTX, so that the width stays what was asked for.
#pragma once
#include "probe.cuh"

template <int bytes>
struct alignas(bytes) Vector {
    u32 word[bytes / 4];
};

#define VECTOR_LOADS(name, instruction, Address, constraint)                                                                  \
    __device__ __forceinline__ void name(Vector<4> &v, Address at) {                                                   \
        asm volatile(instruction ".u32 %0, [%1];" : "=r"(v.word[0]) : constraint(at));                                 \
    }                                                                                                                  \
    __device__ __forceinline__ void name(Vector<8> &v, Address at) {                                                   \
        asm volatile(instruction ".v2.u32 {%0,%1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : constraint(at));        \
    }                                                                                                                  \
    __device__ __forceinline__ void name(Vector<16> &v, Address at) {                                                  \
        asm volatile(instruction ".v4.u32 {%0,%1,%2,%3}, [%4];"                                                        \
                     : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])                              \
                     : constraint(at));                                                                                \
    }
#define VECTOR_STORES(name, instruction, Address, constraint)                                                                 \
    __device__ __forceinline__ void name(Address at, const Vector<4> &v) {                                             \
        asm volatile(instruction ".u32 [%0], %1;" : : constraint(at), "r"(v.word[0]) : "memory");                      \
    }                                                                                                                  \
    __device__ __forceinline__ void name(Address at, const Vector<8> &v) {                                             \
        asm volatile(instruction ".v2.u32 [%0], {%1,%2};"                                                              \
                     : : constraint(at), "r"(v.word[0]), "r"(v.word[1]) : "memory");                                   \
    }                                                                                                                  \
    __device__ __forceinline__ void name(Address at, const Vector<16> &v) {                                            \
        asm volatile(instruction ".v4.u32 [%0], {%1,%2,%3,%4};"                                                        \
                     : : constraint(at), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]) : "memory");   \
    }

VECTOR_LOADS(load, "ld.global", const void *, "l")        // weak, as C's: through L1
VECTOR_LOADS(load_l2, "ld.global.cg", const void *, "l")  // past L1
VECTOR_LOADS(load_weak, "ld.global.L1::no_allocate", const void *, "l")  // weak, and not kept by L1
VECTOR_LOADS(load_shared, "ld.shared", u32, "r")
VECTOR_STORES(store, "st.global", void *, "l")
VECTOR_STORES(store_shared, "st.shared", u32, "r")

#if __CUDA_ARCH__ >= 1000
#define LOAD_32_BYTES(name, instruction)                                                                               \
    __device__ __forceinline__ void name(Vector<32> &v, const void *at) {                                              \
        asm volatile(instruction ".v8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"                                            \
                     : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]), "=r"(v.word[4]),            \
                       "=r"(v.word[5]), "=r"(v.word[6]), "=r"(v.word[7])                                               \
                     : "l"(at));                                                                                       \
    }
LOAD_32_BYTES(load, "ld.global")
LOAD_32_BYTES(load_l2, "ld.global.cg")
LOAD_32_BYTES(load_weak, "ld.global.L1::no_allocate")

__device__ __forceinline__ void store(void *at, const Vector<32> &v) {
    asm volatile("st.global.v8.b32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8};"
                 : : "l"(at), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]), "r"(v.word[4]),
                     "r"(v.word[5]), "r"(v.word[6]), "r"(v.word[7]) : "memory");
}
#endif

// Fold `values` vectors into one, word by word: every word that was loaded is used.
template <int bytes, int values>
__device__ __forceinline__ void fold(Vector<bytes> &sum, const Vector<bytes> (&value)[values]) {
#pragma unroll
    for (int k = 0; k < values; ++k)
#pragma unroll
        for (int i = 0; i < bytes / 4; ++i) sum.word[i] ^= value[k].word[i];
}

template <int bytes>
__device__ __forceinline__ u32 folded(const Vector<bytes> &v) {
    u32 sum = 0;
#pragma unroll
    for (int i = 0; i < bytes / 4; ++i) sum ^= v.word[i];
    return sum;
}

// Different words for each thread.
template <int bytes>
__device__ __forceinline__ Vector<bytes> own_words() {
    Vector<bytes> v;
#pragma unroll
    for (int i = 0; i < bytes / 4; ++i) v.word[i] = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + i;
    return v;
}
