// Inclusive prefix sums along the rows of a matrix: in[rows][2048] to out[rows][2048]; rows come by 8.
#include "case.cuh"

constexpr u32 COLUMNS = 2048;
constexpr u32 ALL = 0xffffffffu;

// The sum of a value over the lanes up to this one.
__device__ __forceinline__ float up_to_lane(float value, u32 lane) {
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        const float before = __shfl_up_sync(ALL, value, distance);
        if (lane >= distance) value += before;
    }
    return value;
}

// A block has a row, a thread two neighbouring columns.
extern "C" __global__ void __launch_bounds__(1024)
slow(const float2 *__restrict__ in, float2 *__restrict__ out) {
    __shared__ float sums[COLUMNS / 2];
    const u32 thread = threadIdx.x;
    const u64 place = (u64)blockIdx.x * (COLUMNS / 2) + thread;
    const float2 pair = in[place];
    sums[thread] = pair.x + pair.y;
    __syncthreads();  // the sums of all pairs are there
    if (thread < 32) {
        float carry = 0.0f;
#pragma unroll 1
        for (u32 i = 0; i < COLUMNS / 2; i += 32) {
            const float own = sums[i + thread];
            const float sum = up_to_lane(thread == 0 ? own + carry : own, thread);
            const float before = __shfl_up_sync(ALL, sum, 1);
            sums[i + thread] = thread == 0 ? carry : before;
            carry = __shfl_sync(ALL, sum, 31);
        }
    }
    __syncthreads();  // what comes before each pair is there
    const float before = sums[thread];
    out[place] = make_float2(before + pair.x, before + (pair.x + pair.y));
}

// A warp has a row, and goes through it 128 columns at a time, the next ones loaded ahead.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float2 *__restrict__ in, float2 *__restrict__ out) {
    constexpr u32 TURNS = COLUMNS / 128;
    const u32 lane = threadIdx.x % 32;
    const u64 place = (u64)(blockIdx.x * 8 + threadIdx.x / 32) * (COLUMNS / 4) + lane;
    const float4 *const from = (const float4 *)in + place;
    float4 *const to = (float4 *)out + place;
    float carry = 0.0f;
    float4 next = from[0];
#pragma unroll 2
    for (u32 turn = 0; turn < TURNS; ++turn) {
        float4 values = next;
        if (turn + 1 < TURNS) next = from[(turn + 1) * 32];
        values.y += values.x;
        values.z += values.y;
        values.w += values.z;
        const float sum = up_to_lane(values.w, lane);
        const float before = sum - values.w + carry;
        carry += __shfl_sync(ALL, sum, 31);
        to[turn * 32] = make_float4(values.x + before, values.y + before, values.z + before, values.w + before);
    }
}
