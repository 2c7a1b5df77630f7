// Sums of the four channels of the pixels of each label, by tile: pixels[tiles][32768] of four bytes and labels[tiles][32768] below 8 to sums[tiles][4][8].
#include "case.cuh"

constexpr u32 PIXELS = 32768;
constexpr u32 LABELS = 8;

// A block has a tile, and a thread takes four neighbouring pixels at a time.
extern "C" __global__ void __launch_bounds__(256)
slow(const uint4 *__restrict__ pixels, const u32 *__restrict__ labels, u32 *__restrict__ sums) {
    __shared__ u32 tile[4 * LABELS];
    if (threadIdx.x < 4 * LABELS) tile[threadIdx.x] = 0;
    __syncthreads();
    const u64 first = (u64)blockIdx.x * (PIXELS / 4) + threadIdx.x;
#pragma unroll 1
    for (u32 i = 0; i < PIXELS / 4; i += 256) {
        const uint4 four = pixels[first + i];
        const u32 marks = labels[first + i];
        const u32 pixel[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            u32 *const own = tile + (marks >> 8 * k & 0xff);
#pragma unroll
            for (u32 channel = 0; channel < 4; ++channel) {
                atomicAdd(own + channel * LABELS, pixel[k] >> 8 * channel & 0xff);
            }
        }
    }
    __syncthreads();
    if (threadIdx.x < 4 * LABELS) sums[blockIdx.x * (4 * LABELS) + threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const uint4 *__restrict__ pixels, const u32 *__restrict__ labels, u32 *__restrict__ sums) {
    // Each thread has sums of its own, 16 bits each: 128 pixels of 255 fit. x holds channels 0 and 2, y 1 and 3.
    __shared__ uint2 parts[LABELS * 256];
#pragma unroll
    for (u32 label = 0; label < LABELS; ++label) parts[label * 256 + threadIdx.x] = make_uint2(0, 0);
    const u64 first = (u64)blockIdx.x * (PIXELS / 4) + threadIdx.x;
#pragma unroll 1
    for (u32 i = 0; i < PIXELS / 4; i += 256) {
        const uint4 four = pixels[first + i];
        const u32 marks = labels[first + i];
        const u32 pixel[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            uint2 *const own = parts + (marks >> 8 * k & 0xff) * 256 + threadIdx.x;
            const uint2 before = *own;
            *own = make_uint2(before.x + (pixel[k] & 0x00ff00ff), before.y + (pixel[k] >> 8 & 0x00ff00ff));
        }
    }
    __syncthreads();
    // A warp adds up a label.
    const u32 label = threadIdx.x / 32;
    const u32 lane = threadIdx.x % 32;
    u32 total[4] = {};
#pragma unroll
    for (u32 i = 0; i < 256; i += 32) {
        const uint2 part = parts[label * 256 + i + lane];
        total[0] += part.x & 0xffff;
        total[1] += part.y & 0xffff;
        total[2] += part.x >> 16;
        total[3] += part.y >> 16;
    }
#pragma unroll
    for (u32 channel = 0; channel < 4; ++channel) {
#pragma unroll
        for (u32 distance = 16; distance > 0; distance /= 2) {
            total[channel] += __shfl_xor_sync(0xffffffffu, total[channel], distance);
        }
        if (lane == 0) sums[blockIdx.x * (4 * LABELS) + channel * LABELS + label] = total[channel];
    }
}
