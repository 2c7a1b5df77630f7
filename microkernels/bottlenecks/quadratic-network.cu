// Evaluates a network with one hidden layer of 976 quadratic units: out[points] = Σ v · (w₀·x + w₁·y + b)² for
// in[points][2], units[976] of (w₀, w₁, b, v).
#include "case.cuh"

constexpr u32 parts = 61, part_units = 16, mine = 3;  // points of a thread, 128 apart

struct Points {
    float x[mine], y[mine], sums[mine];

    __device__ __forceinline__ void add(float4 unit) {
#pragma unroll
        for (u32 i = 0; i < mine; ++i) {
            const float value = fmaf(unit.x, x[i], fmaf(unit.y, y[i], unit.z));
            sums[i] = fmaf(unit.w * value, value, sums[i]);
        }
    }
};

static __device__ __forceinline__ Points load(const float2 *__restrict__ in, u32 first, u32 count) {
    Points points;
#pragma unroll
    for (u32 i = 0; i < mine; ++i) {
        const float2 point = in[min(first + 128 * i, count - 1)];
        points.x[i] = point.x, points.y[i] = point.y, points.sums[i] = 0;
    }
    return points;
}

static __device__ __forceinline__ void store(const Points &points, float *__restrict__ out, u32 first, u32 count) {
#pragma unroll
    for (u32 i = 0; i < mine; ++i)
        if (first + 128 * i < count)
            out[first + 128 * i] = points.sums[i];
}

static __device__ __forceinline__ void add_part(Points &points, const float4 *__restrict__ part) {
#pragma unroll
    for (u32 unit = 0; unit < part_units; ++unit)
        points.add(part[unit]);
}

// The parts from `begin` on, then those before it: warps begin at different parts, so that not all of them read the
// same units at once.
extern "C" __global__ void __launch_bounds__(128, 16)
slow(const float2 *__restrict__ in, const float4 *__restrict__ units, float *__restrict__ out, u32 count) {
    const u32 first = blockIdx.x * 128 * mine + threadIdx.x;
    const u32 begin = (blockIdx.x * 4 + threadIdx.x / 32) % parts;
    Points points = load(in, first, count);
#pragma unroll 1
    for (u32 round = 0; round < 2; ++round)
#pragma unroll
        for (u32 part = 0; part < parts; ++part)
            if ((part < begin) == (round == 1))
                add_part(points, units + part * part_units);
    store(points, out, first, count);
}

extern "C" __global__ void __launch_bounds__(128, 16)
fixed(const float2 *__restrict__ in, const float4 *__restrict__ units, float *__restrict__ out, u32 count) {
    const u32 first = blockIdx.x * 128 * mine + threadIdx.x;
    const u32 begin = (blockIdx.x * 4 + threadIdx.x / 32) % parts;
    Points points = load(in, first, count);
#pragma unroll 1
    for (u32 round = 0; round < 2; ++round) {
        const u32 from = round == 0 ? begin : 0, to = round == 0 ? parts : begin;
#pragma unroll 4
        for (u32 unit = from * part_units; unit < to * part_units; ++unit)
            points.add(units[unit]);
    }
    store(points, out, first, count);
}
