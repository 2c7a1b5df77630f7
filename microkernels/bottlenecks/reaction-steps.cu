// Steps of a reaction of two species in each cell of a box: cells[count][2] of concentrations, changed in place.
#include "case.cuh"

static __device__ __forceinline__ void react(float2 &cell, float feed, float loss, float dt) {
    const float rate = cell.x * cell.y * cell.y;
    cell.x = fmaf(dt, fmaf(feed, 1.0f - cell.x, -rate), cell.x);
    cell.y = fmaf(dt, fmaf(-loss, cell.y, rate), cell.y);
}

static __device__ __forceinline__ void react_all(
    float2 *__restrict__ cells, u32 count, u32 steps, float feed, float loss, float dt) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    float2 cell = cells[i];
    for (u32 step = 0; step < steps; ++step) react(cell, feed, loss, dt);
    cells[i] = cell;
}

extern "C" __global__ void __launch_bounds__(256)
slow(float2 *__restrict__ cells, u32 count, u32 steps, float feed, float loss, float dt) {
    react_all(cells, count, steps, feed, loss, dt);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(float2 *__restrict__ cells, u32 count, u32 steps, float feed, float loss, float dt) {
    react_all(cells, count, steps, feed, loss, dt);
}
