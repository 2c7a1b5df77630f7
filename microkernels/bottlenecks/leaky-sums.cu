// Rectified leaky sums of 128 samples of each channel, one for each factor: samples[128][channels], factors[count]
// → sums[count][channels], with sum = max(factor · sum + sample, 0) from the first sample to the last.
#include "case.cuh"

constexpr u32 length = 128;

extern "C" __global__ void __launch_bounds__(128)
slow(const float *__restrict__ samples, const float *__restrict__ factors, float *__restrict__ sums, u32 channels,
     u32 count)
{
    const u32 channel = blockIdx.x * 128 + threadIdx.x;
    float sample[length];
#pragma unroll
    for (u32 index = 0; index < length; ++index)
        sample[index] = samples[(size_t)index * channels + channel];
    float *to = sums + channel, factor = factors[0];
    for (u32 which = 0; which < count; ++which) {
        const float next = factors[min(which + 1, count - 1)];
        float sum = 0;
#pragma unroll
        for (u32 index = 0; index < length; ++index)
            sum = fmaxf(fmaf(factor, sum, sample[index]), 0.0f);
        *to = sum;
        to += channels;
        factor = next;
    }
}

extern "C" __global__ void __launch_bounds__(128)
fixed(const float *__restrict__ samples, const float *__restrict__ factors, float *__restrict__ sums, u32 channels,
      u32 count)
{
    constexpr u32 together = 4;
    const u32 channel = blockIdx.x * 128 + threadIdx.x;
    float sample[length];
#pragma unroll
    for (u32 index = 0; index < length; ++index)
        sample[index] = samples[(size_t)index * channels + channel];
    float *to = sums + channel;
    for (u32 which = 0; which < count; which += together) {
        float factor[together], sum[together] = {0, 0, 0, 0};
#pragma unroll
        for (u32 part = 0; part < together; ++part)
            factor[part] = factors[which + part];
#pragma unroll
        for (u32 index = 0; index < length; ++index)
#pragma unroll
            for (u32 part = 0; part < together; ++part)
                sum[part] = fmaxf(fmaf(factor[part], sum[part], sample[index]), 0.0f);
#pragma unroll
        for (u32 part = 0; part < together; ++part) {
            *to = sum[part];
            to += channels;
        }
    }
}
