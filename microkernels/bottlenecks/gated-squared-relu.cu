// Applies a gated squared ReLU: out = max(in, 0)^2 * gate; in[count], gate[count] and out[count] are bfloat16, count is
// a multiple of 8.
#include "case.cuh"

static __device__ __forceinline__ float widened(u32 bits) { return __uint_as_float(bits << 16); }

// To the nearest, halves to even.
static __device__ __forceinline__ u32 narrowed(float value) {
    const u32 bits = __float_as_uint(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static __device__ __forceinline__ u32 activated(u32 in, u32 gate) {
    const float positive = fmaxf(widened(in), 0.0f);
    return narrowed(positive * positive * widened(gate));
}

extern "C" __global__ void __launch_bounds__(256)
slow(const u16 *__restrict__ in, const u16 *__restrict__ gate, u16 *__restrict__ out, u32 count) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    out[i] = (u16)activated(in[i], gate[i]);
}

static __device__ __forceinline__ u32 both(u32 in, u32 gate) {
    return activated(in & 0xffff, gate & 0xffff) | activated(in >> 16, gate >> 16) << 16;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const u16 *__restrict__ in, const u16 *__restrict__ gate, u16 *__restrict__ out, u32 count) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count / 8) return;
    const uint4 a = ((const uint4 *)in)[i];
    const uint4 b = ((const uint4 *)gate)[i];
    ((uint4 *)out)[i] = make_uint4(both(a.x, b.x), both(a.y, b.y), both(a.z, b.z), both(a.w, b.w));
}
