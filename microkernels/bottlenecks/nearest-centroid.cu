// Squared distance of each point to the nearest of 256 centroids: points[16][4 · quads], centroids[256][16] →
// nearest[4 · quads].
#include "case.cuh"

constexpr u32 sides = 16, centroids = 256;

extern "C" __global__ void __launch_bounds__(128)
slow(const float4 *__restrict__ points, const float4 *__restrict__ places, float4 *__restrict__ nearest, u32 quads)
{
    __shared__ float4 held[centroids * sides / 4];
    for (u32 start = 0; start < centroids * sides / 4; start += 128)
        held[start + threadIdx.x] = places[start + threadIdx.x];
    __syncthreads();
    const u32 quad = blockIdx.x * 128 + threadIdx.x;
    if (quad >= quads)
        return;
    float4 point[sides];
#pragma unroll
    for (u32 side = 0; side < sides; ++side)
        point[side] = points[(size_t)side * quads + quad];
    float4 least = make_float4(1e30f, 1e30f, 1e30f, 1e30f);
#pragma unroll 2
    for (u32 centroid = 0; centroid < centroids; ++centroid) {
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (u32 group = 0; group < sides / 4; ++group) {
            const float4 four = held[centroid * (sides / 4) + group];
            const float place[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (u32 index = 0; index < 4; ++index) {
                const float4 at = point[group * 4 + index];
                const float x = at.x - place[index], y = at.y - place[index];
                const float z = at.z - place[index], w = at.w - place[index];
                sum = make_float4(fmaf(x, x, sum.x), fmaf(y, y, sum.y), fmaf(z, z, sum.z), fmaf(w, w, sum.w));
            }
        }
        least = make_float4(fminf(least.x, sum.x), fminf(least.y, sum.y), fminf(least.z, sum.z), fminf(least.w, sum.w));
    }
    nearest[quad] = least;
}

extern "C" __global__ void __launch_bounds__(128)
fixed(const float4 *__restrict__ points, const float4 *__restrict__ places, float4 *__restrict__ nearest, u32 quads)
{
    // |p − c|² = |p|² + (|c|² − 2 c · p): the first part is the same for all centroids, |c|² for all points.
    __shared__ float4 held[centroids * sides / 4];
    __shared__ float size[centroids];
    for (u32 start = 0; start < centroids * sides / 4; start += 128) {
        const u32 index = start + threadIdx.x;
        const float4 four = places[index];
        float sum = four.x * four.x + four.y * four.y + four.z * four.z + four.w * four.w;
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        held[index] = make_float4(-2 * four.x, -2 * four.y, -2 * four.z, -2 * four.w);
        if (index % 4 == 0)
            size[index / 4] = sum;
    }
    __syncthreads();
    const u32 quad = blockIdx.x * 128 + threadIdx.x;
    if (quad >= quads)
        return;
    float4 point[sides], own = make_float4(0, 0, 0, 0);
#pragma unroll
    for (u32 side = 0; side < sides; ++side) {
        const float4 at = points[(size_t)side * quads + quad];
        own = make_float4(fmaf(at.x, at.x, own.x), fmaf(at.y, at.y, own.y), fmaf(at.z, at.z, own.z), fmaf(at.w, at.w,
            own.w));
        point[side] = at;
    }
    float4 least = make_float4(1e30f, 1e30f, 1e30f, 1e30f);
#pragma unroll 4
    for (u32 centroid = 0; centroid < centroids; ++centroid) {
        float4 sum = make_float4(size[centroid], size[centroid], size[centroid], size[centroid]);
#pragma unroll
        for (u32 group = 0; group < sides / 4; ++group) {
            const float4 four = held[centroid * (sides / 4) + group];
            const float place[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (u32 index = 0; index < 4; ++index) {
                const float4 at = point[group * 4 + index];
                sum = make_float4(fmaf(at.x, place[index], sum.x), fmaf(at.y, place[index], sum.y),
                                  fmaf(at.z, place[index], sum.z), fmaf(at.w, place[index], sum.w));
            }
        }
        least = make_float4(fminf(least.x, sum.x), fminf(least.y, sum.y), fminf(least.z, sum.z), fminf(least.w, sum.w));
    }
    nearest[quad] = make_float4(own.x + least.x, own.y + least.y, own.z + least.z, own.w + least.w);
}
