// Computes out = residual + silu(x * scale + shift), silu(v) = v / (1 + exp(-v)): x[count], residual[count], out[count]
// and the work arrays linear[count] and gated[count]; count is a multiple of 65536, of which each block has so many.
#include "case.cuh"

#define BLOCK_VECTORS (65536 / 4)

#define AFFINE(v) fmaf(v, scale, shift)
#define SILU(v) __fdividef(v, 1.0f + __expf(-(v)))
#define EACH(f, v) make_float4(f(v.x), f(v.y), f(v.z), f(v.w))
#define SUM(a, b) make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w)

extern "C" __global__ void __launch_bounds__(256, 8)
slow(const float4 *__restrict__ x, const float4 *__restrict__ residual, float4 *__restrict__ linear,
     float4 *__restrict__ gated, float4 *__restrict__ out, float scale, float shift) {
    const u32 first = blockIdx.x * BLOCK_VECTORS + threadIdx.x, end = first + BLOCK_VECTORS;
    for (u32 i = first; i < end; i += 512) {
        const float4 a = x[i], b = x[i + 256];
        linear[i] = EACH(AFFINE, a);
        linear[i + 256] = EACH(AFFINE, b);
    }
    for (u32 i = first; i < end; i += 512) {
        const float4 a = linear[i], b = linear[i + 256];
        gated[i] = EACH(SILU, a);
        gated[i + 256] = EACH(SILU, b);
    }
    for (u32 i = first; i < end; i += 512) {
        const float4 a = gated[i], b = gated[i + 256], c = residual[i], d = residual[i + 256];
        out[i] = SUM(a, c);
        out[i + 256] = SUM(b, d);
    }
}

extern "C" __global__ void __launch_bounds__(256, 8)
fixed(const float4 *__restrict__ x, const float4 *__restrict__ residual, float4 *__restrict__ linear,
      float4 *__restrict__ gated, float4 *__restrict__ out, float scale, float shift) {
    const u32 first = blockIdx.x * BLOCK_VECTORS + threadIdx.x, end = first + BLOCK_VECTORS;
    for (u32 i = first; i < end; i += 512) {
        const float4 a = x[i], b = x[i + 256], c = residual[i], d = residual[i + 256];
        const float4 e = EACH(AFFINE, a), f = EACH(AFFINE, b);
        const float4 g = EACH(SILU, e), h = EACH(SILU, f);
        out[i] = SUM(g, c);
        out[i + 256] = SUM(h, d);
    }
}
