// Sums the power series of one channel of a table: y = c[0] + c[1] x + c[2] x^2 ...; the table has 192 coefficients of
// each of 64 channels, x[count], y[count]; count is a multiple of 32768.
#include "case.cuh"

#define TERMS 192
#define CHANNELS 64
#define CHANNEL 21

// The coefficient of term t in channel c.
#define C(t, c) (((t) * 37 + (c) * 11) % 64 - 31) / 64.0f
#define FOUR(t, c) C(t, c), C(t, c + 1), C(t, c + 2), C(t, c + 3)
#define SIXTEEN(t, c) FOUR(t, c), FOUR(t, c + 4), FOUR(t, c + 8), FOUR(t, c + 12)
#define ROW(t) {SIXTEEN(t, 0), SIXTEEN(t, 16), SIXTEEN(t, 32), SIXTEEN(t, 48)}
#define ROWS(t) ROW(t), ROW(t + 1), ROW(t + 2), ROW(t + 3), ROW(t + 4), ROW(t + 5), ROW(t + 6), ROW(t + 7)
#define MORE(t) ROWS(t), ROWS(t + 8), ROWS(t + 16), ROWS(t + 24), ROWS(t + 32), ROWS(t + 40), ROWS(t + 48), ROWS(t + 56)

__constant__ float coefficients[TERMS][CHANNELS] = {MORE(0), MORE(64), MORE(128)};

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ x, float *__restrict__ y) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    const float at = x[i];
    float sum = coefficients[TERMS - 1][CHANNEL];
#pragma unroll
    for (int t = TERMS - 2; t >= 0; t--) sum = fmaf(sum, at, coefficients[t][CHANNEL]);
    y[i] = sum;
}

// sum = sum * at + next
#define STEP(sum, at, next)                                                                                            \
    sum = make_float4(fmaf(sum.x, at.x, next), fmaf(sum.y, at.y, next),                                                \
                      fmaf(sum.z, at.z, next), fmaf(sum.w, at.w, next))

extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ x, float *__restrict__ y) {
    __shared__ float4 row[TERMS / 4];
    if (threadIdx.x < TERMS) ((float *)row)[threadIdx.x] = coefficients[TERMS - 1 - threadIdx.x][CHANNEL];
    __syncthreads();
    const u32 first = blockIdx.x * 8192 + threadIdx.x;
    for (u32 i = first; i < first + 8192; i += 256) {
        const float4 at = ((const float4 *)x)[i];
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
        for (u32 t = 0; t < TERMS / 4; t++) {
            const float4 c = row[t];
            STEP(sum, at, c.x);
            STEP(sum, at, c.y);
            STEP(sum, at, c.z);
            STEP(sum, at, c.w);
        }
        ((float4 *)y)[i] = sum;
    }
}
