// Matrix products of a warp group, four warps, on the tensor cores of Hopper (wgmma), with A in registers and B in shared
// memory. On the host each warp multiplies its own rows.
#pragma once

#include "tensor.cuh"

// D += A · B in FP16: a warp has 16 rows of A and of D, laid out as for mma.m16n8 (tensor.cuh); value 4·j + r of D is
// value r of the eight columns from 8·j on. B is 16 × 128: chunk c has k from 8·c on, and column n of it lies at
// b[c * 128 + n], 16 bytes. D must not be touched from begin_products to end_products.
__device__ __forceinline__ void multiply_group(float (&d)[64], const u32 (&a)[4], const uint4 *b);
__device__ __forceinline__ void begin_products();
__device__ __forceinline__ void end_products();
// Lets the tensor cores see what this thread stored in shared memory. A barrier must follow.
__device__ __forceinline__ void publish();

#ifndef GPUPROF_HOST

#define GROUP_D(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GROUP_16(i) GROUP_D(i), GROUP_D(i + 4), GROUP_D(i + 8), GROUP_D(i + 12)

// Matrix descriptor without swizzle (PTX ISA): start address, bytes from eight k to the next, and from eight columns to
// the next, all in units of 16.
__device__ __forceinline__ void multiply_group(float (&d)[64], const u32 (&a)[4], const uint4 *b) {
    const u64 of_b = (shared_address(b) & 0x3ffff) >> 4 | (u64)(128 * 16 >> 4) << 16 | (u64)(8 * 16 >> 4) << 32;
    asm volatile("{.reg .pred add; setp.ne.b32 add, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63},"
                 " {%64, %65, %66, %67}, %68, add, 1, 1, 0;}"
                 : GROUP_16(0), GROUP_16(16), GROUP_16(32), GROUP_16(48)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(of_b));
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void end_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#else

inline void multiply_group(float (&d)[64], const u32 (&a)[4], const uint4 *b) {
    const u32 g = on_host::lane() / 4, t = on_host::lane() % 4;
    for (u32 j = 0; j < 16; ++j) {
        float (&of_columns)[4] = (float (&)[4])d[4 * j];
        const u32 *low = (const u32 *)&b[8 * j + g], *high = (const u32 *)&b[128 + 8 * j + g];
        multiply_f16(of_columns, a, low[t], high[t]);
    }
}
inline void begin_products() {}
inline void end_products() {}
inline void publish() {}

#endif
