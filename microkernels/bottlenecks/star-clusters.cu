// Moves clusters of eight stars by several steps of time: stars[clusters][8] of x, y, z and mass, velocities the same
// with the fourth unused; both are changed in place.
#include "case.cuh"

constexpr u32 members = 8;

// The eight lanes of a cluster are neighbours in a warp.
static __device__ __forceinline__ void move(
    float4 *__restrict__ stars, float4 *__restrict__ velocities, u32 star, u32 lanes, u32 steps, float dt) {
    float4 place = stars[star], velocity = velocities[star];
    float mass[members];
#pragma unroll
    for (u32 other = 0; other < members; ++other) mass[other] = __shfl_sync(lanes, place.w, other, members);
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
        float ax = 0, ay = 0, az = 0;
#pragma unroll
        for (u32 other = 0; other < members; ++other) {
            const float dx = __shfl_sync(lanes, place.x, other, members) - place.x;
            const float dy = __shfl_sync(lanes, place.y, other, members) - place.y;
            const float dz = __shfl_sync(lanes, place.z, other, members) - place.z;
            const float inverse = rsqrtf(fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, 0.01f))));
            const float pull = mass[other] * inverse * inverse * inverse;
            ax = fmaf(pull, dx, ax);
            ay = fmaf(pull, dy, ay);
            az = fmaf(pull, dz, az);
        }
        velocity.x = fmaf(dt, ax, velocity.x);
        velocity.y = fmaf(dt, ay, velocity.y);
        velocity.z = fmaf(dt, az, velocity.z);
        place.x = fmaf(dt, velocity.x, place.x);
        place.y = fmaf(dt, velocity.y, place.y);
        place.z = fmaf(dt, velocity.z, place.z);
    }
    stars[star] = place;
    velocities[star] = velocity;
}

// A block has a cluster.
extern "C" __global__ void __launch_bounds__(members)
slow(float4 *__restrict__ stars, float4 *__restrict__ velocities, u32 clusters, u32 steps, float dt) {
    move(stars, velocities, blockIdx.x * members + threadIdx.x, 0xff, steps, dt);
}

// A block has 32 clusters, a warp four of them; the lanes beyond the last cluster repeat it and write the same.
extern "C" __global__ void __launch_bounds__(256)
fixed(float4 *__restrict__ stars, float4 *__restrict__ velocities, u32 clusters, u32 steps, float dt) {
    const u32 cluster = min(blockIdx.x * (256 / members) + threadIdx.x / members, clusters - 1);
    move(stars, velocities, cluster * members + threadIdx.x % members, 0xffffffff, steps, dt);
}
