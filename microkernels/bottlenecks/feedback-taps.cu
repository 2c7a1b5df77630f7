// Filter with five feedback taps for many channels: in[steps / 4][channels][4] to out of the same shape, where tap k reaches back 8 - offsets[k] samples, times gains[k]; steps come by four.
#include "case.cuh"

constexpr u32 TAPS = 5;
constexpr u32 HELD = 8;

// A thread has a channel and keeps its last eight outputs in a ring.
extern "C" __global__ void __launch_bounds__(256)
slow(const float4 *__restrict__ in, float4 *__restrict__ out, const u32 *__restrict__ offsets,
     const float *__restrict__ gains, u32 steps, u32 channels) {
    __shared__ float rings[256 * HELD];
    const u32 channel = blockIdx.x * 256 + threadIdx.x;
    if (channel >= channels) return;
    float *const ring = rings + threadIdx.x * HELD;
    for (u32 k = 0; k < HELD; ++k) ring[k] = 0.0f;
    u32 offset[TAPS];
    float gain[TAPS];
    for (u32 tap = 0; tap < TAPS; ++tap) {
        offset[tap] = offsets[tap];
        gain[tap] = gains[tap];
    }
#pragma unroll 1
    for (u32 step = 0; step < steps; step += 4) {
        const u64 place = (u64)(step / 4) * channels + channel;
        const float4 dry = in[place];
        float wet[4] = {dry.x, dry.y, dry.z, dry.w};
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            for (u32 tap = 0; tap < TAPS; ++tap) {
                wet[k] = fmaf(gain[tap], ring[(step + k + offset[tap]) % HELD], wet[k]);
            }
            ring[(step + k) % HELD] = wet[k];
        }
        out[place] = make_float4(wet[0], wet[1], wet[2], wet[3]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ in, float4 *__restrict__ out, const u32 *__restrict__ offsets,
      const float *__restrict__ gains, u32 steps, u32 channels) {
    __shared__ float rings[HELD * 256];
    const u32 channel = blockIdx.x * 256 + threadIdx.x;
    if (channel >= channels) return;
    // The same place of all rings lies together.
    float *const ring = rings + threadIdx.x;
    for (u32 k = 0; k < HELD; ++k) ring[k * 256] = 0.0f;
    u32 offset[TAPS];
    float gain[TAPS];
    for (u32 tap = 0; tap < TAPS; ++tap) {
        offset[tap] = offsets[tap];
        gain[tap] = gains[tap];
    }
#pragma unroll 1
    for (u32 step = 0; step < steps; step += 4) {
        const u64 place = (u64)(step / 4) * channels + channel;
        const float4 dry = in[place];
        float wet[4] = {dry.x, dry.y, dry.z, dry.w};
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            for (u32 tap = 0; tap < TAPS; ++tap) {
                wet[k] = fmaf(gain[tap], ring[(step + k + offset[tap]) % HELD * 256], wet[k]);
            }
            ring[(step + k) % HELD * 256] = wet[k];
        }
        out[place] = make_float4(wet[0], wet[1], wet[2], wet[3]);
    }
}
