// Loops over shared loads and stores whose lanes lie `stride` elements apart, in full SMs and in single warps.
#pragma once
#include "probe.cuh"

constexpr u32 ROW = 128;      // bytes that the 32 banks hold side by side
constexpr u32 WINDOW = 8192;  // the loops walk through so much, a row at a time, so that no two addresses are equal
constexpr u32 MEMORY = WINDOW + UNROLL * ROW + 33 * 16 * 32;

template <int bytes>
struct alignas(bytes) Vector {
    u32 word[bytes / 4];
};

// Volatile: else the compiler loads only the words that are used.
__device__ __forceinline__ void load(Vector<4> &v, u32 at) {
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v.word[0]) : "r"(at));
}
__device__ __forceinline__ void load(Vector<8> &v, u32 at) {
    asm volatile("ld.volatile.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "r"(at));
}
__device__ __forceinline__ void load(Vector<16> &v, u32 at) {
    asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]) : "r"(at));
}
__device__ __forceinline__ void store(u32 at, const Vector<4> &v) {
    asm volatile("st.shared.u32 [%0], %1;" : : "r"(at), "r"(v.word[0]) : "memory");
}
__device__ __forceinline__ void store(u32 at, const Vector<8> &v) {
    asm volatile("st.shared.v2.u32 [%0], {%1,%2};" : : "r"(at), "r"(v.word[0]), "r"(v.word[1]) : "memory");
}
__device__ __forceinline__ void store(u32 at, const Vector<16> &v) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};"
                 : : "r"(at), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]) : "memory");
}

// The stride in elements that puts `ways` lanes of a warp on one bank, each on another row of it.
template <int bytes>
__device__ __forceinline__ u32 stride_of(u32 ways) { return ways * 4 / bytes; }

template <int bytes>
__device__ __forceinline__ void time_loads(Clocks *clocks, u32 iterations, u32 *sink, u32 stride) {
    __shared__ __align__(128) u32 memory[MEMORY / 4];
    for (u32 i = threadIdx.x; i < MEMORY / 4; i += blockDim.x) memory[i] = i * 2654435761u;
    const u32 lane = (u32)__cvta_generic_to_shared(memory) + threadIdx.x % 32 * stride * bytes;
    u32 row = threadIdx.x / 32 * ROW;
    Vector<bytes> sum = {};
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
        Vector<bytes> value[UNROLL];
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) load(value[k], lane + row + k * ROW);
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k)
#pragma unroll
            for (int word = 0; word < bytes / 4; ++word) sum.word[word] ^= value[k].word[word];
        row = (row + UNROLL * ROW) % WINDOW;
    }
    end(clocks, start);
    u32 all = 0;
    for (int word = 0; word < bytes / 4; ++word) all ^= sum.word[word];
    keep(sink, all);
}

template <int bytes>
__device__ __forceinline__ void time_stores(Clocks *clocks, u32 iterations, u32 *sink, u32 stride) {
    __shared__ __align__(128) u32 memory[MEMORY / 4];
    const u32 lane = (u32)__cvta_generic_to_shared(memory) + threadIdx.x % 32 * stride * bytes;
    u32 row = threadIdx.x / 32 * ROW;
    Vector<bytes> value;
    for (int word = 0; word < bytes / 4; ++word) value.word[word] = threadIdx.x * 2654435761u + word;
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) store(lane + row + k * ROW, value);
        row = (row + UNROLL * ROW) % WINDOW;
    }
    end(clocks, start);
    keep(sink, memory[row / 4 + threadIdx.x]);
}

// Each element holds its own address: what a load returns is where the next one goes.
template <int bytes>
__device__ __forceinline__ void time_chain(Clocks *clocks, u32 iterations, u32 *sink, u32 stride) {
    __shared__ __align__(128) u32 memory[MEMORY / 4];
    u32 at = (u32)__cvta_generic_to_shared(memory) + threadIdx.x % 32 * stride * bytes;
    Vector<bytes> value;
    for (int word = 0; word < bytes / 4; ++word) value.word[word] = at;
    store(at, value);
    const Stamp start = begin();
#pragma unroll 1
    for (u32 i = 0; i < iterations; ++i) {
#pragma unroll
        for (u32 k = 0; k < UNROLL; ++k) {
            load(value, at);
            at = value.word[0];
        }
    }
    end(clocks, start);
    u32 all = 0;
    for (int word = 0; word < bytes / 4; ++word) all ^= value.word[word];
    keep(sink, all);
}
