// What every probe shares: clock stamps at both ends of the timed loop, and a sink that keeps results alive.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

// Stamps of one block. The host gets the SM's clock from them: cycles over nanoseconds.
struct Clocks {
    u64 begin_cycles, end_cycles, begin_ns, end_ns;
    u32 sm, padding;
};

struct Stamp {
    u64 cycles, ns;
};

__device__ __forceinline__ Stamp now() {
    Stamp stamp;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(stamp.ns) : : "memory");
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(stamp.cycles) : : "memory");
    return stamp;
}

// All warps of the block begin together.
__device__ __forceinline__ Stamp begin() {
    __syncthreads();
    return now();
}

// The last warp of the block has ended. One thread writes.
__device__ __forceinline__ void end(Clocks *clocks, Stamp begin) {
    __syncthreads();
    const Stamp stamp = now();
    if (threadIdx.x == 0) {
        u32 sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        clocks[blockIdx.x] = Clocks{begin.cycles, stamp.cycles, begin.ns, stamp.ns, sm, 0};
    }
}

// Keep a result alive at the price of one comparison after the loop: the store happens for one value in 2^32.
__device__ __forceinline__ void keep(u32 *sink, u32 value) {
    if (value == 0x7fedcba9u) sink[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

__device__ __forceinline__ void keep(u32 *sink, float value) { keep(sink, __float_as_uint(value)); }
