// Scales and shifts every channel of a batch of images: in[pixels][8], out[pixels][8], scale[8], shift[8]; pixels is a
// multiple of 256.
#include "case.cuh"

constexpr u32 CHANNELS = 8;

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ in, float *__restrict__ out, const float *__restrict__ scale,
     const float *__restrict__ shift, u32 pixels) {
    const u32 pixel = blockIdx.x * 256 + threadIdx.x;
    const u32 channel = blockIdx.y;
    if (pixel >= pixels) return;
    const u64 i = (u64)pixel * CHANNELS + channel;
    out[i] = in[i] * scale[channel] + shift[channel];
}

// A thread has half of two pixels.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ in, float *__restrict__ out, const float *__restrict__ scale,
      const float *__restrict__ shift, u32 pixels) {
    const u32 first = blockIdx.x * 512 + threadIdx.x;
    const float4 by = ((const float4 *)scale)[threadIdx.x % 2];
    const float4 plus = ((const float4 *)shift)[threadIdx.x % 2];
    float4 part[2];
#pragma unroll
    for (u32 k = 0; k < 2; ++k) part[k] = ((const float4 *)in)[first + k * 256];
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
        const float4 v = part[k];
        ((float4 *)out)[first + k * 256] =
            make_float4(v.x * by.x + plus.x, v.y * by.y + plus.y, v.z * by.z + plus.z, v.w * by.w + plus.w);
    }
}
