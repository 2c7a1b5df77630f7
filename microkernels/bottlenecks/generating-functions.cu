// Evaluates the generating function of each of many distributions of 192 counts: counts[192][series], places[points] →
// values[points][series] = Σ counts[k] · place^k. Blocks along y have 256 points each; series is a multiple of 128.
#include "case.cuh"

constexpr u32 terms = 192, points_of_block = 256;

// A thread has one series.
extern "C" __global__ void __launch_bounds__(128)
slow(const float *__restrict__ counts, const float *__restrict__ places, float *__restrict__ values, u32 series,
     u32 points) {
    const u32 i = blockIdx.x * 128 + threadIdx.x;
    float count[terms];
#pragma unroll
    for (u32 k = 0; k < terms; ++k) count[k] = counts[k * series + i];
    const u32 first = blockIdx.y * points_of_block, last = min(first + points_of_block, points);
    for (u32 p = first; p < last; ++p) {
        const float x = places[p];
        float value = count[terms - 1];
#pragma unroll
        for (u32 k = terms - 1; k-- > 0;) value = fmaf(value, x, count[k]);
        values[p * series + i] = value;
    }
}

constexpr u32 lanes = 4, own = terms / lanes;

// Four lanes share a series: each has every fourth of its counts, a polynomial in place⁴.
extern "C" __global__ void __launch_bounds__(128)
fixed(const float *__restrict__ counts, const float *__restrict__ places, float *__restrict__ values, u32 series,
      u32 points) {
    const u32 part = threadIdx.x % lanes;
    const u32 i = blockIdx.x * (128 / lanes) + threadIdx.x / lanes;
    float count[own];
#pragma unroll
    for (u32 k = 0; k < own; ++k) count[k] = counts[(k * lanes + part) * series + i];
    const u32 first = blockIdx.y * points_of_block, last = min(first + points_of_block, points);
    for (u32 p = first; p < last; ++p) {
        const float x = places[p], square = x * x, fourth = square * square;
        float value = count[own - 1];
#pragma unroll
        for (u32 k = own - 1; k-- > 0;) value = fmaf(value, fourth, count[k]);
        value *= (part & 1 ? x : 1.0f) * (part & 2 ? square : 1.0f);
        value += __shfl_xor_sync(0xffffffff, value, 1);
        value += __shfl_xor_sync(0xffffffff, value, 2);
        if (part == 0) values[p * series + i] = value;
    }
}
