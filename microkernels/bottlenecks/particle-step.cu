// Moves particles by one step of time: particles[count] of 16 floats each, changed in place.
#include "case.cuh"

struct Particle {
    float x, y, z, age;
    float vx, vy, vz, work;
    float ax, ay, az, heat;
    float inverse_mass, charge, drag, lift;
};

// Velocity Verlet in fields along z, with a drag against the velocity.
static __device__ __forceinline__ void step(Particle &p, float electric, float magnetic, float dt) {
    const float half = 0.5f * dt;
    const float turn = p.charge * magnetic * p.inverse_mass;
    const float push = p.charge * electric * p.inverse_mass + p.lift;
    const float ax = turn * p.vy - p.drag * p.vx;
    const float ay = -turn * p.vx - p.drag * p.vy;
    const float az = push - p.drag * p.vz;
    p.work += dt * push * p.vz;
    p.heat += dt * p.drag * (p.vx * p.vx + p.vy * p.vy + p.vz * p.vz);
    p.age += dt;
    p.x += dt * (p.vx + half * p.ax);
    p.y += dt * (p.vy + half * p.ay);
    p.z += dt * (p.vz + half * p.az);
    p.vx += half * (p.ax + ax);
    p.vy += half * (p.ay + ay);
    p.vz += half * (p.az + az);
    p.ax = ax;
    p.ay = ay;
    p.az = az;
}

extern "C" __global__ void __launch_bounds__(256)
slow(Particle *__restrict__ particles, u32 count, float electric, float magnetic, float dt) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    Particle p = particles[i];
    step(p, electric, magnetic, dt);
    particles[i] = p;
}

// Where a warp keeps a quarter of a particle: eight lanes that take the same quarter, or both all of two particles,
// fall on different banks.
static __device__ __forceinline__ u32 place(u32 particle, u32 quarter) {
    return particle * 4 + (quarter ^ (particle / 2 % 4));
}

extern "C" __global__ void __launch_bounds__(256)
fixed(Particle *__restrict__ particles, u32 count, float electric, float magnetic, float dt) {
    __shared__ float4 staged[8][128];
    const u32 lane = threadIdx.x % 32;
    float4 *const mine = staged[threadIdx.x / 32];
    const u32 first = blockIdx.x * 256 + threadIdx.x - lane;
    if (first >= count) return;
    const u32 quarters = (count - first < 32 ? count - first : 32) * 4;
    float4 *const all = (float4 *)(particles + first);
#pragma unroll
    for (u32 at = lane; at < 128; at += 32)
        if (at < quarters) mine[place(at / 4, at % 4)] = all[at];
    __syncwarp();
    const float4 a = mine[place(lane, 0)];
    const float4 b = mine[place(lane, 1)];
    const float4 c = mine[place(lane, 2)];
    const float4 d = mine[place(lane, 3)];
    Particle p = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w, d.x, d.y, d.z, d.w};
    step(p, electric, magnetic, dt);
    mine[place(lane, 0)] = make_float4(p.x, p.y, p.z, p.age);
    mine[place(lane, 1)] = make_float4(p.vx, p.vy, p.vz, p.work);
    mine[place(lane, 2)] = make_float4(p.ax, p.ay, p.az, p.heat);
    __syncwarp();
#pragma unroll
    for (u32 at = lane; at < 128; at += 32)
        if (at < quarters) all[at] = mine[place(at / 4, at % 4)];
}
