// Corrects the states of many filters by a measurement: next[count] = state[count] + gain[count] * (measured[count] -
// state[count]); count is a multiple of 4.
#include "case.cuh"

extern "C" __global__ void __launch_bounds__(256)
slow(const float4 *__restrict__ state, const float4 *__restrict__ gain, const float4 *__restrict__ measured,
     float4 *__restrict__ next, u32 count) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count / 4) return;
    const float4 x = state[i];
    const float4 k = gain[i], z = measured[i];
    const float4 d = make_float4(z.x - x.x, z.y - x.y, z.z - x.z, z.w - x.w);
    next[i] = make_float4(x.x + k.x * d.x, x.y + k.y * d.y, x.z + k.z * d.z, x.w + k.w * d.w);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ state, const float4 *__restrict__ gain, const float4 *__restrict__ measured,
      float4 *__restrict__ next, u32 count) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count / 4) return;
    const float4 x = state[i];
    const float4 k = gain[i], z = measured[i];
    const float4 d = make_float4(z.x - x.x, z.y - x.y, z.z - x.z, z.w - x.w);
    next[i] = make_float4(x.x + k.x * d.x, x.y + k.y * d.y, x.z + k.z * d.z, x.w + k.w * d.w);
}
