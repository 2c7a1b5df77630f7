// Mean of the rows of each sequence. Rows lie in pages of page_rows rows of 32 elements, and
// pages[sequences][sequence_pages] says in which: x[sequences * sequence_pages][page_rows][32] in BF16 (the upper half of
// an FP32), out[sequences][32]; a warp has one sequence, page_rows and sequences are multiples of 8.
#include "case.cuh"

extern "C" __global__ void __launch_bounds__(256)
slow(const u16 *__restrict__ x, const u32 *__restrict__ pages, float *__restrict__ out, u32 sequence_pages,
     u32 page_rows) {
    const u32 lane = threadIdx.x % 32, sequence = blockIdx.x * 8 + threadIdx.x / 32;
    float sum = 0;
    for (u32 i = 0; i < sequence_pages; i++) {
        const u32 first = pages[sequence * sequence_pages + i] * page_rows * 32 + lane, end = first + page_rows * 32;
#pragma unroll 1
        for (u32 at = first; at < end; at += 32) {
            const u32 value = x[at];
            sum += __uint_as_float(value << 16);
        }
    }
    out[sequence * 32 + lane] = __fdividef(sum, (float)(sequence_pages * page_rows));
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const u16 *__restrict__ x, const u32 *__restrict__ pages, float *__restrict__ out, u32 sequence_pages,
      u32 page_rows) {
    const u32 lane = threadIdx.x % 32, sequence = blockIdx.x * 8 + threadIdx.x / 32;
    float sum = 0;
    for (u32 i = 0; i < sequence_pages; i++) {
        const u32 first = pages[sequence * sequence_pages + i] * page_rows * 32 + lane, end = first + page_rows * 32;
#pragma unroll 1
        for (u32 at = first; at < end; at += 8 * 32) {
            u32 values[8];
#pragma unroll
            for (u32 k = 0; k < 8; k++) values[k] = x[at + k * 32];
#pragma unroll
            for (u32 k = 0; k < 8; k++) sum += __uint_as_float(values[k] << 16);
        }
    }
    out[sequence * 32 + lane] = __fdividef(sum, (float)(sequence_pages * page_rows));
}
