// Applies one layer many times: states[rows][128] in FP16, changed in place, w[128][128] in FP16, with the weights of a
// unit in a row; states become 0.5 + scale · states · wᵀ, within 0 and 1. rows come by 256.
#include "group.cuh"

constexpr u32 units = 128, chunks = units / 8;  // a chunk is 16 bytes: the weights of a unit for eight others

// Chunk c of unit n lies at c * 128 + n.
static __device__ __forceinline__ void hold(uint4 *held, const uint4 *__restrict__ w) {
    for (u32 i = threadIdx.x; i < units * chunks; i += 256) held[i] = w[i % units * chunks + i / units];
}

// 16 rows of a warp: word r of step s is word r of A for the units from 16·s on (tensor.cuh).
static __device__ __forceinline__ u32 *place_of(u32 *states, u32 row) {
    const u32 lane = threadIdx.x % 32;
    return states + (row + lane / 4) * (units / 2) + lane % 4;
}

static __device__ __forceinline__ void load_rows(u32 (&state)[8][4], const u32 *from) {
#pragma unroll
    for (u32 i = 0; i < 32; ++i) state[i / 4][i % 4] = from[i % 2 * 8 * (units / 2) + i / 4 * 8 + i % 4 / 2 * 4];
}

static __device__ __forceinline__ void store_rows(const u32 (&state)[8][4], u32 *to) {
#pragma unroll
    for (u32 i = 0; i < 32; ++i) to[i % 2 * 8 * (units / 2) + i / 4 * 8 + i % 4 / 2 * 4] = state[i / 4][i % 4];
}

static __device__ __forceinline__ u32 shaped(float first, float second, float scale) {
    return saturate_f16(pack_f16(fmaf(scale, first, 0.5f), fmaf(scale, second, 0.5f)));
}

// A block has 256 rows, a warp 32 of them. Of the sums, those of 32 units are in registers at a time.
extern "C" __global__ void __launch_bounds__(256, 1)
slow(u32 *__restrict__ states, const uint4 *__restrict__ w, u32 steps, float scale) {
    __shared__ uint4 held[chunks * units];
    hold(held, w);
    __syncthreads();
    const u32 lane = threadIdx.x % 32, row = blockIdx.x * 256 + threadIdx.x / 32 * 32;
    const uint4 *const named = held + (lane >> 3 & 1) * units + lane / 16 * 8 + lane % 8;
    u32 state[2][8][4];
    load_rows(state[0], place_of(states, row));
    load_rows(state[1], place_of(states, row + 16));
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
        u32 next[2][8][4];
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            float sums[2][4][4] = {};
#pragma unroll
            for (u32 s = 0; s < 8; ++s)
#pragma unroll
                for (u32 pair = 0; pair < 2; ++pair) {
                    u32 b[4];
                    load_matrices(b, named + 2 * s * units + part * 32 + pair * 16);
#pragma unroll
                    for (u32 m = 0; m < 2; ++m) {
                        multiply_f16(sums[m][2 * pair], state[m][s], b[0], b[1]);
                        multiply_f16(sums[m][2 * pair + 1], state[m][s], b[2], b[3]);
                    }
                }
#pragma unroll
            for (u32 i = 0; i < 16; ++i) {
                const u32 m = i / 8, j = i / 2 % 4, high = i % 2;
                next[m][part * 2 + j / 2][j % 2 * 2 + high] =
                    shaped(sums[m][j][2 * high], sums[m][j][2 * high + 1], scale);
            }
        }
#pragma unroll
        for (u32 i = 0; i < 64; ++i) state[i / 32][i / 4 % 8][i % 4] = next[i / 32][i / 4 % 8][i % 4];
    }
    store_rows(state[0], place_of(states, row));
    store_rows(state[1], place_of(states, row + 16));
}

// A block has 128 rows, four warps 64 of them.
extern "C" __global__ void __launch_bounds__(256, 1)
fixed(u32 *__restrict__ states, const uint4 *__restrict__ w, u32 steps, float scale) {
    __shared__ __align__(128) uint4 held[chunks * units];
    hold(held, w);
    publish();
    __syncthreads();
    const u32 row = blockIdx.x * 128 + threadIdx.x / 32 * 16;
    u32 state[8][4];
    load_rows(state, place_of(states, row));
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
        float sums[64] = {};
        begin_products();
#pragma unroll
        for (u32 s = 0; s < 8; ++s) multiply_group(sums, state[s], held + 2 * s * units);
        end_products();
#pragma unroll
        for (u32 i = 0; i < 32; ++i) {
            const u32 j = i / 2, high = i % 2;
            state[j / 2][j % 2 * 2 + high] = shaped(sums[4 * j + 2 * high], sums[4 * j + 2 * high + 1], scale);
        }
    }
    store_rows(state, place_of(states, row));
}
