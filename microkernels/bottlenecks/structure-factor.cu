// Structure factors of a crystal: factors[h][kl] = Σ f · exp(2πi · (h x + k y + l z)) over atoms[count] = (x, y,
// z, f); kl counts k (256 of them) within l, and a thread computes 16 h in a row for one kl.
#include "case.cuh"

constexpr u32 batch = 256, span = 16, across = 256;
constexpr float turn = 6.2831853f;

extern "C" __global__ void __launch_bounds__(256)
slow(const float4 *__restrict__ atoms, float2 *__restrict__ factors, u32 count, u32 lines)
{
    __shared__ float4 held[batch];
    const u32 line = blockIdx.x * 256 + threadIdx.x, first = blockIdx.y * span;
    const float h = first, k = line % across, l = line / across;
    float real[span], imaginary[span];
#pragma unroll
    for (u32 index = 0; index < span; ++index)
        real[index] = imaginary[index] = 0;
    for (u32 start = 0; start < count; start += batch) {
        held[threadIdx.x] = atoms[start + threadIdx.x];
        __syncthreads();
        for (u32 index = 0; index < batch; ++index) {
            const float4 atom = held[index];
            const float turns = fmaf(h, atom.x, fmaf(k, atom.y, l * atom.z));
            const float step = turn * atom.x, base = turn * (turns - rintf(turns));
#pragma unroll
            for (u32 ahead = 0; ahead < span; ++ahead) {
                float sine, cosine;
                __sincosf(fmaf((float)ahead, step, base), &sine, &cosine);
                real[ahead] = fmaf(atom.w, cosine, real[ahead]);
                imaginary[ahead] = fmaf(atom.w, sine, imaginary[ahead]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 ahead = 0; ahead < span; ++ahead)
        factors[(size_t)(first + ahead) * lines + line] = make_float2(real[ahead], imaginary[ahead]);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float4 *__restrict__ atoms, float2 *__restrict__ factors, u32 count, u32 lines)
{
    __shared__ float4 held[batch];
    const u32 line = blockIdx.x * 256 + threadIdx.x, first = blockIdx.y * span;
    const float h = first, k = line % across, l = line / across;
    float real[span], imaginary[span];
#pragma unroll
    for (u32 index = 0; index < span; ++index)
        real[index] = imaginary[index] = 0;
    for (u32 start = 0; start < count; start += batch) {
        held[threadIdx.x] = atoms[start + threadIdx.x];
        __syncthreads();
        for (u32 index = 0; index < batch; ++index) {
            const float4 atom = held[index];
            const float turns = fmaf(h, atom.x, fmaf(k, atom.y, l * atom.z));
            const float step = turn * atom.x, base = turn * (turns - rintf(turns));
            float sine, cosine, turned, along;
            __sincosf(base, &sine, &cosine);
            __sincosf(step, &turned, &along);
#pragma unroll
            for (u32 ahead = 0; ahead < span; ++ahead) {
                real[ahead] = fmaf(atom.w, cosine, real[ahead]);
                imaginary[ahead] = fmaf(atom.w, sine, imaginary[ahead]);
                const float next = fmaf(cosine, along, -(sine * turned));
                sine = fmaf(sine, along, cosine * turned);
                cosine = next;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 ahead = 0; ahead < span; ++ahead)
        factors[(size_t)(first + ahead) * lines + line] = make_float2(real[ahead], imaginary[ahead]);
}
