// Convolves the columns of an image with 37 weights: in[height + 36][width], out[height][width]; width is a multiple of
// 128, height too.
#include "case.cuh"

#define TAPS 37

// A Gaussian with a standard deviation of 6 rows.
__constant__ float weights[TAPS] = {
    0.0007401f, 0.0012035f, 0.0019032f, 0.0029273f, 0.0043792f, 0.0063717f, 0.0090167f, 0.0124103f,
    0.0166131f, 0.0216300f, 0.0273904f, 0.0337347f, 0.0404102f, 0.0470805f, 0.0533492f, 0.0587965f,
    0.0630247f, 0.0657062f, 0.0666251f, 0.0657062f, 0.0630247f, 0.0587965f, 0.0533492f, 0.0470805f,
    0.0404102f, 0.0337347f, 0.0273904f, 0.0216300f, 0.0166131f, 0.0124103f, 0.0090167f, 0.0063717f,
    0.0043792f, 0.0029273f, 0.0019032f, 0.0012035f, 0.0007401f,
};

// sum += weight * v
#define ADD(sum, weight, v)                                                                                            \
    sum = make_float4(fmaf(weight, v.x, sum.x), fmaf(weight, v.y, sum.y),                                              \
                      fmaf(weight, v.z, sum.z), fmaf(weight, v.w, sum.w))

extern "C" __global__ void __launch_bounds__(512, 4)
slow(const float4 *__restrict__ in, float4 *__restrict__ out, u32 width) {
    const u32 pitch = width / 4;
    const u32 column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    const float4 *above = in + (u64)row * pitch + column;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (u32 tap = 0; tap < TAPS; tap++) {
        const float4 v = above[tap * pitch];
        ADD(sum, weights[tap], v);
    }
    out[(u64)row * pitch + column] = sum;
}

#define ROWS 8

extern "C" __global__ void __launch_bounds__(512, 2)
fixed(const float4 *__restrict__ in, float4 *__restrict__ out, u32 width) {
    const u32 pitch = width / 4;
    const u32 column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 128 + threadIdx.y * ROWS;
    const float4 *above = in + (u64)row * pitch + column;
    float4 sums[ROWS];
#pragma unroll
    for (u32 i = 0; i < ROWS; i++)
        sums[i] = make_float4(0, 0, 0, 0);
#pragma unroll
    for (u32 next = 0; next < TAPS + ROWS - 1; next++) {
        const float4 v = above[next * pitch];
#pragma unroll
        for (u32 i = 0; i < ROWS; i++)
            if (next >= i && next - i < TAPS)
                ADD(sums[i], weights[next - i], v);
    }
#pragma unroll
    for (u32 i = 0; i < ROWS; i++)
        out[(u64)(row + i) * pitch + column] = sums[i];
}
