// Drives leaky neurons with one recorded current: current[steps], leak[neurons], excess[neurons] → charge[neurons], the
// sum of the potentials at which a neuron fired. leak and excess are what its decay and its threshold differ by from
// those of all. neurons is a multiple of 256, steps of 24576.
#include "case.cuh"

extern __shared__ float4 staged[];

// A step of a neuron: its potential leaks and takes up the current; it starts again from zero where it fires.
static __device__ __forceinline__ void step(float &potential, float &charge, float current, float decay,
                                            float threshold) {
    potential = fmaf(potential, decay, current);
    if (potential >= threshold) {
        charge += potential;
        potential = 0.0f;
    }
}

// The current is staged in shared memory, so many steps at a time.
template <u32 threads, u32 chunk>
static __device__ __forceinline__ float run(const float *__restrict__ current, float decay, float threshold,
                                            u32 steps) {
    float potential = 0.0f, charge = 0.0f;
    for (u32 first = 0; first < steps; first += chunk) {
        __syncthreads();
#pragma unroll 8
        for (u32 i = 0; i < chunk / 4; i += threads)
            staged[i + threadIdx.x] = ((const float4 *)(current + first))[i + threadIdx.x];
        __syncthreads();
#pragma unroll 1
        for (u32 i = 0; i < chunk / 4; ++i) {
            const float4 now = staged[i];
            step(potential, charge, now.x, decay, threshold);
            step(potential, charge, now.y, decay, threshold);
            step(potential, charge, now.z, decay, threshold);
            step(potential, charge, now.w, decay, threshold);
        }
    }
    return charge;
}

extern "C" __global__ void __launch_bounds__(128)
slow(const float *__restrict__ current, const float *__restrict__ leak, const float *__restrict__ excess,
     float *__restrict__ charge, u32 steps) {
    const u32 i = blockIdx.x * 128 + threadIdx.x;
    charge[i] = run<128, 24576>(current, 0.95f + 0.04f * leak[i], 2.0f + excess[i], steps);
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ current, const float *__restrict__ leak, const float *__restrict__ excess,
      float *__restrict__ charge, u32 steps) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    charge[i] = run<256, 1024>(current, 0.95f + 0.04f * leak[i], 2.0f + excess[i], steps);
}
