// Power distance of each point to the nearest of weighted sites: points[3][count], sites[1024] = (x, y, z, weight) →
// nearest[count] = smallest squared distance less weight. count is a multiple of 8192.
#include "case.cuh"

constexpr u32 site_count = 1024;

// A thread has `own` points, `threads` apart.
template <u32 threads, u32 own>
static __device__ __forceinline__ void nearest_of(const float *__restrict__ points, const float4 *__restrict__ sites,
                                                  float *__restrict__ nearest, u32 count) {
    __shared__ float4 staged[site_count];
#pragma unroll
    for (u32 i = 0; i < site_count; i += threads) staged[i + threadIdx.x] = sites[i + threadIdx.x];
    const u32 first = blockIdx.x * threads * own + threadIdx.x;
    float x[own], y[own], z[own], best[own];
#pragma unroll
    for (u32 k = 0; k < own; ++k) {
        x[k] = points[first + k * threads];
        y[k] = points[count + first + k * threads];
        z[k] = points[2 * count + first + k * threads];
        best[k] = 1e30f;
    }
    __syncthreads();
    for (u32 i = 0; i < site_count; ++i) {
        const float4 site = staged[i];
#pragma unroll
        for (u32 k = 0; k < own; ++k) {
            const float dx = x[k] - site.x, dy = y[k] - site.y, dz = z[k] - site.z;
            best[k] = fminf(best[k], dx * dx + (dy * dy + (dz * dz - site.w)));
        }
    }
#pragma unroll
    for (u32 k = 0; k < own; ++k) nearest[first + k * threads] = best[k];
}

extern "C" __global__ void __launch_bounds__(1024)
slow(const float *__restrict__ points, const float4 *__restrict__ sites, float *__restrict__ nearest, u32 count) {
    nearest_of<1024, 8>(points, sites, nearest, count);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ points, const float4 *__restrict__ sites, float *__restrict__ nearest, u32 count) {
    nearest_of<256, 2>(points, sites, nearest, count);
}
