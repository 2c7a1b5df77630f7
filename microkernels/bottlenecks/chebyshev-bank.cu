// Evaluates 32 Chebyshev series at points: out[32][count] = Σ cₙ·Tₙ(in[count]), where series s has 60 + s / 4 terms and
// cₙ = ±1 / (1 + (s + 1)·n). count is a multiple of 4.
#include "case.cuh"

constexpr u32 series_count = 32, longest = 68, turns = 16;  // times that a block takes 128 points

static __device__ __forceinline__ u32 terms_of(u32 series) { return 60 + series / 4; }

static __device__ __forceinline__ float coefficient(u32 series, u32 n) {
    return (n % 2 != 0 ? -1.0f : 1.0f) / (1.0f + (series + 1) * n);
}

// Four points, by Clenshaw's recurrence from the last term down.
struct Points {
    float twice[4], now[4], before[4];

    __device__ __forceinline__ void begin(float4 x) {
        const float values[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (u32 i = 0; i < 4; ++i) twice[i] = 2.0f * values[i], now[i] = before[i] = 0;
    }

    __device__ __forceinline__ void add(float coefficient) {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const float next = fmaf(twice[i], now[i], coefficient - before[i]);
            before[i] = now[i];
            now[i] = next;
        }
    }

    __device__ __forceinline__ float4 sums() const {
        float values[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) values[i] = fmaf(-0.5f * twice[i], before[i], now[i]);
        return make_float4(values[0], values[1], values[2], values[3]);
    }
};

template <u32 series>
static __device__ __forceinline__ void evaluate(const float4 *__restrict__ in, float4 *__restrict__ out, u32 fours) {
    u32 at = blockIdx.x * 32 * turns + threadIdx.x % 32;
#pragma unroll 1
    for (u32 turn = 0; turn < turns && at < fours; ++turn, at += 32) {
        Points points;
        points.begin(in[at]);
#pragma unroll
        for (u32 n = longest; n-- > 0;)
            if (n < terms_of(series))
                points.add(coefficient(series, n));
        out[(size_t)series * fours + at] = points.sums();
    }
}

template <u32 first, u32 among>
static __device__ __forceinline__ void choose(const float4 *in, float4 *out, u32 fours) {
    if constexpr (among == 1)
        evaluate<first>(in, out, fours);
    else if (threadIdx.x / 32 < first + among / 2)
        choose<first, among / 2>(in, out, fours);
    else
        choose<first + among / 2, among / 2>(in, out, fours);
}

// A warp has a series.
extern "C" __global__ void __launch_bounds__(1024, 2)
slow(const float4 *__restrict__ in, float4 *__restrict__ out, u32 count) {
    choose<0, series_count>(in, out, count / 4);
}

extern "C" __global__ void __launch_bounds__(1024, 2)
fixed(const float4 *__restrict__ in, float4 *__restrict__ out, u32 count) {
    __shared__ float coefficients[series_count][longest];
    const u32 series = threadIdx.x / 32, lane = threadIdx.x % 32, fours = count / 4;
    for (u32 n = lane; n < terms_of(series); n += 32)
        coefficients[series][n] = coefficient(series, n);
    __syncwarp();
    u32 at = blockIdx.x * 32 * turns + lane;
#pragma unroll 1
    for (u32 turn = 0; turn < turns && at < fours; ++turn, at += 32) {
        Points points;
        points.begin(in[at]);
#pragma unroll 4
        for (u32 n = terms_of(series); n-- > 0;)
            points.add(coefficients[series][n]);
        out[(size_t)series * fours + at] = points.sums();
    }
}
