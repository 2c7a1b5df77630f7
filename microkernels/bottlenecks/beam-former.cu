// Forms beams from the signals of 128 antennas: signals[128][times] and weights[128][beams] (complex) →
// out[beams][times]. A block makes 32 beams at 128 times, a thread 8 beams at two times.
#include "case.cuh"

constexpr u32 antennas = 128, block_beams = 32, own = 8;

static __device__ __forceinline__ void hold(float2 (&held)[antennas][block_beams],
                                            const float2 *__restrict__ weights, u32 beams)
{
    for (u32 place = threadIdx.x; place < antennas * block_beams; place += 256)
        held[place / block_beams][place % block_beams] =
            weights[place / block_beams * beams + blockIdx.y * block_beams + place % block_beams];
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256, 3)
slow(const float4 *__restrict__ signals, const float2 *__restrict__ weights, float4 *__restrict__ out, u32 pairs,
     u32 beams)
{
    __shared__ __align__(16) float2 held[antennas][block_beams];
    hold(held, weights, beams);
    const u32 pair = blockIdx.x * 64 + threadIdx.x % 64, beam = threadIdx.x / 64 * own;
    float4 sum[own];
#pragma unroll
    for (u32 index = 0; index < own; ++index)
        sum[index] = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (u32 antenna = 0; antenna < antennas; ++antenna) {
        const float4 signal = signals[(size_t)antenna * pairs + pair];
#pragma unroll
        for (u32 index = 0; index < own; ++index) {
            const float2 weight = held[antenna][beam + index];
            float4 &to = sum[index];
            to.x = __fadd_rn(to.x, __fsub_rn(__fmul_rn(weight.x, signal.x), __fmul_rn(weight.y, signal.y)));
            to.y = __fadd_rn(to.y, __fadd_rn(__fmul_rn(weight.x, signal.y), __fmul_rn(weight.y, signal.x)));
            to.z = __fadd_rn(to.z, __fsub_rn(__fmul_rn(weight.x, signal.z), __fmul_rn(weight.y, signal.w)));
            to.w = __fadd_rn(to.w, __fadd_rn(__fmul_rn(weight.x, signal.w), __fmul_rn(weight.y, signal.z)));
        }
    }
#pragma unroll
    for (u32 index = 0; index < own; ++index)
        out[(size_t)(blockIdx.y * block_beams + beam + index) * pairs + pair] = sum[index];
}

extern "C" __global__ void __launch_bounds__(256, 3)
fixed(const float4 *__restrict__ signals, const float2 *__restrict__ weights, float4 *__restrict__ out, u32 pairs,
      u32 beams)
{
    __shared__ __align__(16) float2 held[antennas][block_beams];
    hold(held, weights, beams);
    const u32 pair = blockIdx.x * 64 + threadIdx.x % 64, beam = threadIdx.x / 64 * own;
    float4 sum[own];
#pragma unroll
    for (u32 index = 0; index < own; ++index)
        sum[index] = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (u32 antenna = 0; antenna < antennas; ++antenna) {
        const float4 signal = signals[(size_t)antenna * pairs + pair];
#pragma unroll
        for (u32 index = 0; index < own; ++index) {
            const float2 weight = held[antenna][beam + index];
            float4 &to = sum[index];
            to.x = fmaf(weight.x, signal.x, fmaf(-weight.y, signal.y, to.x));
            to.y = fmaf(weight.x, signal.y, fmaf(weight.y, signal.x, to.y));
            to.z = fmaf(weight.x, signal.z, fmaf(-weight.y, signal.w, to.z));
            to.w = fmaf(weight.x, signal.w, fmaf(weight.y, signal.z, to.w));
        }
    }
#pragma unroll
    for (u32 index = 0; index < own; ++index)
        out[(size_t)(blockIdx.y * block_beams + beam + index) * pairs + pair] = sum[index];
}
