// Damped oscillations of many modes: for each mode, the weighted sum, the mean and the energy of 512 steps of
// next = turn · now − damping · before. modes[2][count], weights[512] → sums[3][count].
#include "case.cuh"

constexpr u32 STEPS = 512;

struct Mode {
    float turn, damping, now, before, sum, mean, energy;
    __device__ void step(float weight) {
        const float next = turn * now - damping * before;
        before = now;
        now = next;
        sum += weight * next;
        mean += next;
        energy += next * next;
    }
};

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ modes, const float *__restrict__ weights, float *__restrict__ sums, u32 count)
{
    __shared__ float weight[STEPS];
    for (u32 i = threadIdx.x; i < STEPS; i += 256)
        weight[i] = weights[i];
    __syncthreads();
    const u32 mode = blockIdx.x * 256 + threadIdx.x;
    if (mode >= count)
        return;
    Mode own = {modes[mode], modes[count + mode], 1, 0, 0, 0, 0};
#pragma unroll 1
    for (u32 i = 0; i < STEPS; ++i)
        own.step(weight[i]);
    sums[mode] = own.sum;
    sums[count + mode] = own.mean;
    sums[2 * count + mode] = own.energy;
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ modes, const float *__restrict__ weights, float *__restrict__ sums, u32 count)
{
    __shared__ float weight[STEPS];
    for (u32 i = threadIdx.x; i < STEPS; i += 256)
        weight[i] = weights[i];
    __syncthreads();
    const u32 mode = blockIdx.x * 256 + threadIdx.x;
    if (mode >= count)
        return;
    Mode own = {modes[mode], modes[count + mode], 1, 0, 0, 0, 0};
#pragma unroll 32
    for (u32 i = 0; i < STEPS; ++i)
        own.step(weight[i]);
    sums[mode] = own.sum;
    sums[count + mode] = own.mean;
    sums[2 * count + mode] = own.energy;
}
