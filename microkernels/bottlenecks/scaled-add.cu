// Computes y = scale * x + y: x[count], y[count]; count is a multiple of 4096, of which each block has so many.
#include "case.cuh"

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ x, float4 *__restrict__ y, float scale) {
    const u32 first = blockIdx.x * 1024 + threadIdx.x;
    float4 a[4], b[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        a[k] = __ldcs(x + first + k * 256);
        b[k] = __ldcs(y + first + k * 256);
    }
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        const float4 sum = make_float4(fmaf(scale, a[k].x, b[k].x), fmaf(scale, a[k].y, b[k].y),
                                       fmaf(scale, a[k].z, b[k].z), fmaf(scale, a[k].w, b[k].w));
        __stcs(y + first + k * 256, sum);
    }
}
