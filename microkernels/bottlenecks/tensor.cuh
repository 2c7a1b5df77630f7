// Matrix products of a warp on tensor cores (mma.sync), matrix fragments from shared memory (ldmatrix), copies into
// shared memory that do not pass through registers (cp.async), and floats of 16 bits in pairs. Each has a version for
// the host, where the lanes of a warp gather what they need and a copy is done when it is waited for.
//
// Which lane holds what (PTX ISA, matrix fragments of mma.m16n8), g = lane / 4, t = lane % 4. A word is a pair of
// 16-bit floats of consecutive k, or one TF32:
//   A, word r:  row g + 8·(r % 2),     word t + 4·(r / 2) of the row
//   B, word r:  column g,              word t + 4·r of the column
//   D, value r: row g + 8·(r / 2),     column 2·t + r % 2
#pragma once

#include "case.cuh"

// Two floats as one word, the first in its lower half; and back.
__device__ __forceinline__ u32 pack_f16(float first, float second);
__device__ __forceinline__ u32 pack_bf16(float first, float second);
__device__ __forceinline__ float first_of_f16(u32 pair);
__device__ __forceinline__ float second_of_f16(u32 pair);
__device__ __forceinline__ float first_of_bf16(u32 pair);
__device__ __forceinline__ float second_of_bf16(u32 pair);

// D += A · B: 16 × 16 times 16 × 8 of FP16 or BF16, 16 × 8 times 8 × 8 of TF32, which ignores the last 13 bits.
__device__ __forceinline__ void multiply_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
__device__ __forceinline__ void multiply_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
__device__ __forceinline__ void multiply_tf32(float (&d)[4], const float (&a)[4], float b0, float b1);
// The same with FP16 for D, too: word r has values 2·r and 2·r + 1.
__device__ __forceinline__ void multiply_in_f16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1);
// Both values of a pair, none below 0 or above 1.
__device__ __forceinline__ u32 saturate_f16(u32 pair);

// Four matrices of 8 × 8 16-bit values: lane l names row l % 8 of matrix l / 8, 16 bytes in shared memory. Word m is of
// matrix m: row g, values 2·t and 2·t + 1; of the transposed matrix with the second function.
__device__ __forceinline__ void load_matrices(u32 (&words)[4], const void *row);
__device__ __forceinline__ void load_transposed(u32 (&words)[4], const void *row);

// Copies 16 bytes to shared memory. A group ends with close_copies; wait_copies waits until at most `left` groups of
// this thread are still under way. A barrier must follow before other threads read.
__device__ __forceinline__ void copy_16(void *shared, const void *global);
__device__ __forceinline__ void close_copies();
template <int left>
__device__ __forceinline__ void wait_copies();

#ifndef GPUPROF_HOST

__device__ __forceinline__ u32 pack_f16(float first, float second) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ __forceinline__ u32 pack_bf16(float first, float second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ __forceinline__ float first_of_f16(u32 pair) {
    float value;
    asm("{.reg .b16 low, high;\n mov.b32 {low, high}, %1;\n cvt.f32.f16 %0, low;}" : "=f"(value) : "r"(pair));
    return value;
}

__device__ __forceinline__ float second_of_f16(u32 pair) {
    float value;
    asm("{.reg .b16 low, high;\n mov.b32 {low, high}, %1;\n cvt.f32.f16 %0, high;}" : "=f"(value) : "r"(pair));
    return value;
}

__device__ __forceinline__ float first_of_bf16(u32 pair) { return __uint_as_float(pair << 16); }

__device__ __forceinline__ float second_of_bf16(u32 pair) { return __uint_as_float(pair & 0xffff0000); }

__device__ __forceinline__ void multiply_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]));
}

__device__ __forceinline__ void multiply_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]));
}

__device__ __forceinline__ void multiply_tf32(float (&d)[4], const float (&a)[4], float b0, float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)), "f"(d[0]), "f"(d[1]),
          "f"(d[2]), "f"(d[3]));
}

__device__ __forceinline__ void multiply_in_f16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
        : "=r"(d[0]), "=r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(d[0]), "r"(d[1]));
}

__device__ __forceinline__ u32 saturate_f16(u32 pair) {
    u32 saturated;
    asm("add.sat.f16x2 %0, %1, %2;" : "=r"(saturated) : "r"(pair), "r"(0x80008000u));
    return saturated;
}

__device__ __forceinline__ u32 shared_address(const void *place) { return (u32)__cvta_generic_to_shared(place); }

__device__ __forceinline__ void load_matrices(u32 (&words)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_transposed(u32 (&words)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void copy_16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}

__device__ __forceinline__ void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int left>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

#else

namespace tensor_on_host {

// D += A · B for words that hold `each` values of k, of which value(word, i) is number i.
template <u32 each, class Value>
inline void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, Value value) {
    const u32 g = on_host::lane() / 4, t = on_host::lane() % 4;
    u32 rows[4][32], columns[2][32];
    for (u32 r = 0; r < 4; ++r) on_host::gather(a[r], rows[r]);
    on_host::gather(b0, columns[0]);
    on_host::gather(b1, columns[1]);
    for (u32 r = 0; r < 4; ++r) {
        double sum = d[r];
        for (u32 word = 0; word < 8; ++word)
            for (u32 i = 0; i < each; ++i)
                sum += (double)value(rows[r / 2 + 2 * (word / 4)][4 * g + word % 4], i) *
                       value(columns[word / 4][4 * (2 * t + r % 2) + word % 4], i);
        d[r] = (float)sum;
    }
}

inline float of_f16(u32 word, u32 i) { return on_host::f32_of_f16((unsigned short)(word >> 16 * i)); }
inline float of_bf16(u32 word, u32 i) { return on_host::f32_of_bf16((unsigned short)(word >> 16 * i)); }
inline float of_tf32(u32 word, u32) { return __uint_as_float(word & 0xffffe000); }

inline u32 pair_of(u64 row, u32 place, u64 next_row, u32 next_place) {
    return ((const unsigned short *)row)[place] | (u32)((const unsigned short *)next_row)[next_place] << 16;
}

// Copies of a thread that are under way, in order, with the group that each is in.
struct Copies {
    static constexpr u32 most = 64;
    void *to[most];
    const void *from[most];
    u32 group[most], first, end, closed;
};

inline Copies &copies() {
    static Copies all[1024];
    return all[on_host::now->index];
}

}  // namespace tensor_on_host

inline u32 pack_f16(float first, float second) {
    return on_host::f16_of_f32(first) | (u32)on_host::f16_of_f32(second) << 16;
}
inline u32 pack_bf16(float first, float second) {
    return on_host::bf16_of_f32(first) | (u32)on_host::bf16_of_f32(second) << 16;
}
inline float first_of_f16(u32 pair) { return tensor_on_host::of_f16(pair, 0); }
inline float second_of_f16(u32 pair) { return tensor_on_host::of_f16(pair, 1); }
inline float first_of_bf16(u32 pair) { return tensor_on_host::of_bf16(pair, 0); }
inline float second_of_bf16(u32 pair) { return tensor_on_host::of_bf16(pair, 1); }

inline void multiply_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    tensor_on_host::multiply<2>(d, a, b0, b1, tensor_on_host::of_f16);
}
inline void multiply_in_f16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1) {
    float values[4] = {first_of_f16(d[0]), second_of_f16(d[0]), first_of_f16(d[1]), second_of_f16(d[1])};
    multiply_f16(values, a, b0, b1);
    d[0] = pack_f16(values[0], values[1]), d[1] = pack_f16(values[2], values[3]);
}
inline u32 saturate_f16(u32 pair) {
    return pack_f16(__saturatef(first_of_f16(pair)), __saturatef(second_of_f16(pair)));
}
inline void multiply_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    tensor_on_host::multiply<2>(d, a, b0, b1, tensor_on_host::of_bf16);
}
inline void multiply_tf32(float (&d)[4], const float (&a)[4], float b0, float b1) {
    const u32 words[4] = {__float_as_uint(a[0]), __float_as_uint(a[1]), __float_as_uint(a[2]), __float_as_uint(a[3])};
    tensor_on_host::multiply<1>(d, words, __float_as_uint(b0), __float_as_uint(b1), tensor_on_host::of_tf32);
}

inline void load_matrices(u32 (&words)[4], const void *row) {
    const u32 g = on_host::lane() / 4, t = on_host::lane() % 4;
    u64 rows[32];
    on_host::gather((u64)row, rows);
    for (u32 matrix = 0; matrix < 4; ++matrix) {
        const u64 mine = rows[8 * matrix + g];
        words[matrix] = tensor_on_host::pair_of(mine, 2 * t, mine, 2 * t + 1);
    }
}
inline void load_transposed(u32 (&words)[4], const void *row) {
    const u32 g = on_host::lane() / 4, t = on_host::lane() % 4;
    u64 rows[32];
    on_host::gather((u64)row, rows);
    for (u32 matrix = 0; matrix < 4; ++matrix)
        words[matrix] = tensor_on_host::pair_of(rows[8 * matrix + 2 * t], g, rows[8 * matrix + 2 * t + 1], g);
}

inline void copy_16(void *shared, const void *global) {
    tensor_on_host::Copies &mine = tensor_on_host::copies();
    if (mine.end - mine.first == mine.most) on_host::fail("more than %u copies of a thread are under way", mine.most);
    const u32 place = mine.end++ % mine.most;
    mine.to[place] = shared;
    mine.from[place] = global;
    mine.group[place] = mine.closed;
}
inline void close_copies() { ++tensor_on_host::copies().closed; }
template <int left>
inline void wait_copies() {
    tensor_on_host::Copies &mine = tensor_on_host::copies();
    for (; mine.first < mine.end; ++mine.first) {
        const u32 place = mine.first % mine.most;
        if (mine.group[place] + left >= mine.closed) break;
        __builtin_memcpy(mine.to[place], mine.from[place], 16);
    }
}

#endif
