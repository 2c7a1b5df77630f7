// Shapes a stereo signal: out[frames][2] from in[frames][2], the first channel by a power series of 128 terms, the
// second by a series of 64 Chebyshev polynomials. samples is twice the number of frames.
#include "case.cuh"

static __device__ __forceinline__ float warm(float x) {
    float sum = 0;
#pragma unroll
    for (u32 n = 128; n-- > 0;) sum = fmaf(sum, x, (n % 3 == 1 ? -1.0f : 0.5f) / (1.0f + n));
    return sum;
}

static __device__ __forceinline__ float bright(float x) {
    const float twice = x + x;
    float before = 1, now = x, sum = 0;
#pragma unroll
    for (u32 n = 1; n <= 64; ++n) {
        sum = fmaf((n % 2 ? 1.0f : -0.7f) / (n * n), now, sum);
        const float next = fmaf(twice, now, -before);
        before = now;
        now = next;
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ in, float *__restrict__ out, u32 samples) {
    const u32 sample = blockIdx.x * 256 + threadIdx.x;
    if (sample >= samples)
        return;
    const float x = in[sample];
    float shaped;
    if (threadIdx.x % 2 == 0)
        shaped = warm(x);
    else
        shaped = bright(x);
    out[sample] = shaped;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ in, float *__restrict__ out, u32 samples) {
    const u32 frame = blockIdx.x * 256 + threadIdx.x;
    if (frame >= samples / 2)
        return;
    const float2 x = ((const float2 *)in)[frame];
    ((float2 *)out)[frame] = make_float2(warm(x.x), bright(x.y));
}
