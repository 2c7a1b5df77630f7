// Blends two grey images of 8 bits a pixel: first[pixels] and second[pixels] to out[pixels], weight of 256 parts
// second; pixels is a multiple of 16.
#include "case.cuh"

extern "C" __global__ void __launch_bounds__(256)
slow(const u8 *__restrict__ first, const u8 *__restrict__ second, u8 *__restrict__ out, u32 pixels, u32 weight) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= pixels) return;
    out[i] = (u8)((first[i] * (256 - weight) + second[i] * weight + 128) >> 8);
}

// Blends the four pixels of a word, two at a time in fields of 16 bits.
static __device__ __forceinline__ u32 blend(u32 first, u32 second, u32 weight) {
    const u32 fields = 0x00ff00ff, half = 0x00800080;
    const u32 even = (first & fields) * (256 - weight) + (second & fields) * weight + half;
    const u32 odd = (first >> 8 & fields) * (256 - weight) + (second >> 8 & fields) * weight + half;
    return (even >> 8 & fields) | (odd & ~fields);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const u8 *__restrict__ first, const u8 *__restrict__ second, u8 *__restrict__ out, u32 pixels, u32 weight) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= pixels / 16) return;
    const uint4 a = ((const uint4 *)first)[i];
    const uint4 b = ((const uint4 *)second)[i];
    ((uint4 *)out)[i] = make_uint4(blend(a.x, b.x, weight), blend(a.y, b.y, weight), blend(a.z, b.z, weight),
                                   blend(a.w, b.w, weight));
}
