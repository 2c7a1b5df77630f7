// Operands in shared memory for wgmma and tcgen05: tiles of rows of 128 bytes in the 128-byte swizzle.
//
// A row is 128 bytes of consecutive k (a row of A, or a column n of B): enough for four instructions, 32 bytes each. In
// global memory the rows lie one after another. In shared memory a tile begins at a multiple of 1024 bytes, and the
// 16-byte chunk c of row r lies at chunk c ^ (r % 8): address bits 4 to 6 are xored with bits 7 to 9 (PTX ISA,
// swizzling modes; Swizzle<3,4,3> in CUTLASS). So eight rows are 1024 bytes, and the k of the next instruction begins
// 32 bytes on.
#pragma once

#include "probe.cuh"

constexpr int STEPS = 4;  // instructions for one row

// With one iteration the tile is what memory holds, and D can be checked. With more, odd steps repeat the even ones
// with the sign bits turned (in A; `sign` is 0 for B and for integers), so that D stays small: a sum that only grows
// soon swallows what is added to it, and its bits stand still. The loop is the same.
__device__ __forceinline__ void fill(uint4 *tile, const uint4 *rows, int count, bool timed, uint4 sign) {
#pragma unroll 1
    for (int i = threadIdx.x; i < count * 8; i += 128) {
        const bool odd = timed && i & 2;
        uint4 chunk = rows[odd ? i - 2 : i];
        if (odd) chunk = make_uint4(chunk.x ^ sign.x, chunk.y ^ sign.y, chunk.z ^ sign.z, chunk.w ^ sign.w);
        tile[i ^ i / 8 % 8] = chunk;
    }
}

// Lets the tensor cores, which read through the asynchronous proxy, see what the threads stored. A barrier must follow.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The shuffle keeps the compiler from computing the address anew in the loop.
__device__ __forceinline__ u32 address_of(const void *place) {
    return __shfl_sync(0xffffffff, (u32)__cvta_generic_to_shared(place), 0);
}
