// Power of both channels of an interleaved signal after smoothing over nine samples, frame by frame: in[frames * 4096 + 8][2] to out[frames][2].
#include "case.cuh"

constexpr u32 FRAME = 4096;
constexpr u32 TILE = 512;
constexpr u32 TAPS = 9;
constexpr u32 REACH = TAPS - 1;

// The polynomial of second degree that fits nine samples best, at the fifth of them.
__device__ __forceinline__ float weight(u32 k) {
    constexpr float WEIGHTS[TAPS] = {-21.0f / 231, 14.0f / 231, 39.0f / 231, 54.0f / 231, 59.0f / 231,
                                     54.0f / 231,  39.0f / 231, 14.0f / 231, -21.0f / 231};
    return WEIGHTS[k];
}

// Adds up the squares of a channel, which two warps have taken.
__device__ __forceinline__ void write_power(float *out, float *parts, float squares) {
#pragma unroll
    for (u32 distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, distance);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    if (threadIdx.x < 2) {
        out[blockIdx.x * 2 + threadIdx.x] = (parts[threadIdx.x * 2] + parts[threadIdx.x * 2 + 1]) / FRAME;
    }
}

// A block takes a frame by 512 samples of both channels; 64 threads take a channel.
extern "C" __global__ void __launch_bounds__(128)
slow(const float4 *__restrict__ in, float *__restrict__ out) {
    __shared__ float4 tile[(TILE + REACH) / 2];
    __shared__ float parts[4];
    const float4 *from = in + (u64)blockIdx.x * (FRAME / 2) + threadIdx.x;
    const u32 channel = threadIdx.x / 64;
    const u32 x = threadIdx.x % 64;
    const float *const values = (const float *)tile + channel;
    float squares = 0.0f;
#pragma unroll 1
    for (u32 begin = 0; begin < FRAME; begin += TILE) {
        const float4 near = from[0], far = from[128];
        if (threadIdx.x < REACH / 2) tile[TILE / 2 + threadIdx.x] = from[TILE / 2];
        tile[threadIdx.x] = near;
        tile[threadIdx.x + 128] = far;
        __syncthreads();
#pragma unroll
        for (u32 j = 0; j < TILE; j += 64) {
            float smooth = 0.0f;
#pragma unroll
            for (u32 k = 0; k < TAPS; ++k) {
                smooth = fmaf(weight(k), values[(x + j + k) * 2], smooth);
            }
            squares = fmaf(smooth, smooth, squares);
        }
        __syncthreads();
        from += TILE / 2;
    }
    write_power(out, parts, squares);
}

constexpr u32 PLANE = (TILE + REACH) / 4;

// Writes two samples into the planes of their channels.
__device__ __forceinline__ void split(float4 *planes, u32 place, float4 two) {
    ((float2 *)planes)[place] = make_float2(two.x, two.z);
    ((float2 *)(planes + PLANE))[place] = make_float2(two.y, two.w);
}

extern "C" __global__ void __launch_bounds__(128)
fixed(const float4 *__restrict__ in, float *__restrict__ out) {
    __shared__ float4 planes[2 * PLANE];
    __shared__ float parts[4];
    const float4 *from = in + (u64)blockIdx.x * (FRAME / 2) + threadIdx.x;
    const float4 *const plane = planes + threadIdx.x / 64 * PLANE + threadIdx.x % 64;
    float squares = 0.0f;
#pragma unroll 1
    for (u32 begin = 0; begin < FRAME; begin += TILE) {
        const float4 near = from[0], far = from[128];
        if (threadIdx.x < REACH / 2) split(planes, TILE / 2 + threadIdx.x, from[TILE / 2]);
        split(planes, threadIdx.x, near);
        split(planes, threadIdx.x + 128, far);
        __syncthreads();
        // A thread has four neighbouring samples of a channel at a time.
#pragma unroll
        for (u32 j = 0; j < TILE / 4; j += 64) {
            const float4 left = plane[j], middle = plane[j + 1], right = plane[j + 2];
            const float values[12] = {left.x,   left.y,   left.z,  left.w,  middle.x, middle.y,
                                      middle.z, middle.w, right.x, right.y, right.z,  right.w};
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                float smooth = 0.0f;
#pragma unroll
                for (u32 k = 0; k < TAPS; ++k) {
                    smooth = fmaf(weight(k), values[i + k], smooth);
                }
                squares = fmaf(smooth, smooth, squares);
            }
        }
        __syncthreads();
        from += TILE / 2;
    }
    write_power(out, parts, squares);
}
