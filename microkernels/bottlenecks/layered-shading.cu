// Shades samples of layered materials: shades[count] is the sum over 8 layers of weight · lobe(x, y, z). A sample's
// layers are layers[8][count], each a word: one of 8 lobes in its lowest 3 bits, the weight as a fraction of 2^24 in
// its upper 24. inputs[3][count] are cosines.
#include "case.cuh"

constexpr u32 slots = 8, lobes = 8;

// Σ cₙ·tⁿ with coefficients that shrink: 1 / (2 + n·step).
template <u32 terms>
static __device__ __forceinline__ float series(float t, float step) {
    float sum = 0;
#pragma unroll
    for (u32 n = terms; n-- > 0;) sum = fmaf(sum, t, 1.0f / (2.0f + n * step));
    return sum;
}

static __device__ __forceinline__ float diffuse(float x, float y, float z) {
    const float facing = series<24>(x * y, 1.0f), back = series<24>(x * z, 2.0f);
    return fmaf(facing, back, x);
}

static __device__ __forceinline__ float glossy(float x, float y, float z) {
    const float sharp = series<20>(z, 3.0f), half = fmaf(x, y, z);
    return series<24>(y, 1.5f) * exp2f(-sharp * half * half);
}

static __device__ __forceinline__ float metal(float x, float y, float z) {
    const float above = series<28>(x, 2.0f), below = series<28>(y * y, 1.0f);
    return __fdividef(above, fmaf(z, z, below));
}

static __device__ __forceinline__ float cloth(float x, float y, float z) {
    float t = x;
#pragma unroll
    for (u32 turn = 0; turn < 30; ++turn) t = fmaf(t, fmaf(-0.3f, t, 0.4f * y), 0.2f * z);
    return t;
}

static __device__ __forceinline__ float coat(float x, float y, float z) {
    const float squared = fmaf(x, x, fmaf(y, y, 0.5f));
    float root = rsqrtf(squared);
#pragma unroll
    for (u32 turn = 0; turn < 16; ++turn) root = fmaf(root, fmaf(-0.25f * squared, root * root, 0.25f), root);
    return root * z;
}

static __device__ __forceinline__ float film(float x, float y, float z) {
    float before = 1, now = x;
#pragma unroll
    for (u32 order = 1; order < 24; ++order) {
        const float next = fmaf((2.0f * order + 1) / (order + 1) * x, now, -(float)order / (order + 1) * before);
        before = now;
        now = next;
    }
    return fmaf(now, y, z);
}

static __device__ __forceinline__ float dust(float x, float y, float z) {
    float real = x, other = y;
#pragma unroll
    for (u32 turn = 0; turn < 16; ++turn) {
        const float next = fmaf(0.3f * real, real, fmaf(-0.3f * other, other, 0.4f * z));
        other = fmaf(0.5f * real, other, 0.1f);
        real = next;
    }
    return fmaf(real, 0.5f, other);
}

static __device__ __forceinline__ float glow(float x, float y, float z) {
    return fmaf(series<30>(x * z, 1.0f), series<30>(y * z, 0.5f), exp2f(-x * x));
}

static __device__ __forceinline__ u32 lobe_of(u32 word) { return word % lobes; }

static __device__ __forceinline__ float weight_of(u32 word) { return (word >> 8) * 0x1p-24f; }

extern "C" __global__ void __launch_bounds__(256)
slow(const u32 *__restrict__ layers, const float *__restrict__ inputs, float *__restrict__ shades, u32 count) {
    const u32 sample = blockIdx.x * 256 + threadIdx.x;
    if (sample >= count)
        return;
    const float x = inputs[sample], y = inputs[count + sample], z = inputs[2 * (size_t)count + sample];
    u32 next = layers[sample];
    float shade = 0;
#pragma unroll 1
    for (u32 slot = 1; slot <= slots; ++slot) {
        const u32 word = next;
        if (slot < slots)
            next = layers[(size_t)slot * count + sample];
        float value;
        switch (lobe_of(word)) {
        case 0: value = diffuse(x, y, z); break;
        case 1: value = glossy(x, y, z); break;
        case 2: value = metal(x, y, z); break;
        case 3: value = cloth(x, y, z); break;
        case 4: value = coat(x, y, z); break;
        case 5: value = film(x, y, z); break;
        case 6: value = dust(x, y, z); break;
        default: value = glow(x, y, z);
        }
        shade = fmaf(weight_of(word), value, shade);
    }
    shades[sample] = shade;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const u32 *__restrict__ layers, const float *__restrict__ inputs, float *__restrict__ shades, u32 count) {
    __shared__ float weights[lobes][256];  // a column for each thread
    const u32 sample = blockIdx.x * 256 + threadIdx.x;
    if (sample >= count)
        return;
    u32 words[slots];
#pragma unroll
    for (u32 slot = 0; slot < slots; ++slot) words[slot] = layers[(size_t)slot * count + sample];
    const float x = inputs[sample], y = inputs[count + sample], z = inputs[2 * (size_t)count + sample];
#pragma unroll
    for (u32 lobe = 0; lobe < lobes; ++lobe) weights[lobe][threadIdx.x] = 0;
#pragma unroll
    for (u32 slot = 0; slot < slots; ++slot) weights[lobe_of(words[slot])][threadIdx.x] += weight_of(words[slot]);
    float shade = weights[0][threadIdx.x] * diffuse(x, y, z);
    shade = fmaf(weights[1][threadIdx.x], glossy(x, y, z), shade);
    shade = fmaf(weights[2][threadIdx.x], metal(x, y, z), shade);
    shade = fmaf(weights[3][threadIdx.x], cloth(x, y, z), shade);
    shade = fmaf(weights[4][threadIdx.x], coat(x, y, z), shade);
    shade = fmaf(weights[5][threadIdx.x], film(x, y, z), shade);
    shade = fmaf(weights[6][threadIdx.x], dust(x, y, z), shade);
    shades[sample] = fmaf(weights[7][threadIdx.x], glow(x, y, z), shade);
}
