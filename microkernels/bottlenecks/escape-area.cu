// Measures a fractal at sample points: totals[groups] = (steps of all of its points, points that stay) for groups of
// `each` points[groups][each], complex numbers. z ← z² + point begins at the point and ends after 256 steps or where
// |z|² > 4. each is a multiple of 32.
#include "case.cuh"

constexpr u32 limit = 256;

struct Orbit {
    float x, y, at_x, at_y;

    __device__ __forceinline__ void begin(float2 point) { x = at_x = point.x, y = at_y = point.y; }
    __device__ __forceinline__ bool stays() const { return fmaf(x, x, y * y) <= 4.0f; }
    __device__ __forceinline__ void step() {
        const float next = fmaf(x, x, fmaf(-y, y, at_x));
        y = fmaf(x * y, 2.0f, at_y);
        x = next;
    }
};

// A warp has a group.
extern "C" __global__ void __launch_bounds__(256)
slow(const float2 *__restrict__ points, uint2 *__restrict__ totals, u32 groups, u32 each) {
    const u32 lane = threadIdx.x % 32, group = blockIdx.x * 8 + threadIdx.x / 32;
    if (group >= groups)
        return;
    const float2 *mine = points + (size_t)group * each + lane;
    float2 next = *mine;
    u32 steps = 0, staying = 0;
#pragma unroll 1
    for (u32 taken = 32; taken <= each; taken += 32) {
        Orbit orbit;
        orbit.begin(next);
        if (taken < each)
            next = mine[taken];
        u32 step = 0;
        while (step < limit && orbit.stays()) {
            orbit.step();
            ++step;
        }
        steps += step;
        staying += step == limit;
    }
    steps = __reduce_add_sync(0xffffffff, steps);
    staying = __reduce_add_sync(0xffffffff, staying);
    if (lane == 0)
        totals[group] = make_uint2(steps, staying);
}

// The same. A lane whose point is done takes the group's next one; the warp looks for such lanes every 16 steps.
extern "C" __global__ void __launch_bounds__(256)
fixed(const float2 *__restrict__ points, uint2 *__restrict__ totals, u32 groups, u32 each) {
    constexpr u32 stretch = 16;
    const u32 lane = threadIdx.x % 32, group = blockIdx.x * 8 + threadIdx.x / 32;
    if (group >= groups)
        return;
    const float2 *mine = points + (size_t)group * each + lane;
    const float2 nowhere = make_float2(0, 0);
    float2 now = each > 32 ? mine[32] : nowhere, next = each > 64 ? mine[64] : nowhere;
    u32 handed = 32, steps = 0, staying = 0, step = 0;
    bool busy = true;
    Orbit orbit;
    orbit.begin(*mine);
#pragma unroll 1
    while (__any_sync(0xffffffff, busy)) {
        u32 made = 0;  // what has escaped does not come back
#pragma unroll
        for (u32 i = 0; i < stretch; ++i) {
            if (orbit.stays())
                made = i + 1;
            orbit.step();
        }
        step += made;
        const bool done = step == limit || !orbit.stays();
        const u32 asking = __ballot_sync(0xffffffff, done);
        steps += done && busy ? step : 0;
        staying += done && busy && step == limit;
        // The next points are in the lanes of `now`, then of `next`.
        const u32 wanted = handed % 32 + __popc(asking & (1u << lane) - 1);
        const float x = __shfl_sync(0xffffffff, now.x, wanted), y = __shfl_sync(0xffffffff, now.y, wanted);
        const float later_x = __shfl_sync(0xffffffff, next.x, wanted);
        const float later_y = __shfl_sync(0xffffffff, next.y, wanted);
        if (done) {
            busy = handed / 32 * 32 + wanted < each;
            orbit.begin(make_float2(wanted < 32 ? x : later_x, wanted < 32 ? y : later_y));
            step = 0;
        }
        const u32 before = handed;
        handed += __popc(asking);
        if (handed / 32 != before / 32) {
            now = next;
            const u32 load = handed / 32 * 32 + 32;
            next = load < each ? mine[load] : nowhere;
        }
    }
    steps = __reduce_add_sync(0xffffffff, steps);
    staying = __reduce_add_sync(0xffffffff, staying);
    if (lane == 0)
        totals[group] = make_uint2(steps, staying);
}
