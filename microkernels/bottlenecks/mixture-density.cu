// Density of each sample under a mixture of four normal distributions: samples[4 · quads] → densities[4 · quads].
// components[4] holds of each 1 ÷ deviation, −mean ÷ deviation, its weight, and a word that is not used.
#include "case.cuh"

extern "C" __global__ void __launch_bounds__(256)
slow(const float4 *__restrict__ samples, const float4 *__restrict__ components, float4 *__restrict__ densities,
     u32 quads)
{
    const u32 quad = blockIdx.x * 256 + threadIdx.x;
    if (quad >= quads)
        return;
    const float4 sample = samples[quad];
    const float x[4] = {sample.x, sample.y, sample.z, sample.w};
    float density[4] = {0, 0, 0, 0};
#pragma unroll
    for (u32 index = 0; index < 4; ++index) {
        const float4 component = __ldg(components + index);
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            const float z = x[part] * component.x + component.y;
            density[part] += component.z * exp(-0.5 * z * z);
        }
    }
    densities[quad] = make_float4(density[0], density[1], density[2], density[3]);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ samples, const float4 *__restrict__ components, float4 *__restrict__ densities,
      u32 quads)
{
    const u32 quad = blockIdx.x * 256 + threadIdx.x;
    if (quad >= quads)
        return;
    const float4 sample = samples[quad];
    const float x[4] = {sample.x, sample.y, sample.z, sample.w};
    float density[4] = {0, 0, 0, 0};
#pragma unroll
    for (u32 index = 0; index < 4; ++index) {
        const float4 component = __ldg(components + index);
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            const float z = x[part] * component.x + component.y;
            density[part] += component.z * exp2f(-0.72134752f * (z * z));
        }
    }
    densities[quad] = make_float4(density[0], density[1], density[2], density[3]);
}
