// Who moves which part of a buffer: shared out before the launch (Static), or drawn by warps as they go (Dynamic).
// Both give the warps TICKET bytes each per iteration, in turns of DEPTH elements of WIDTH bytes per lane, and both go
// through the whole buffer again and again. SMs do not get equal shares of DRAM and L2: with Static the last block is
// waited for, with Dynamic a quick warp does more.
#pragma once
#include "vector.cuh"
#include "walk.cuh"

constexpr u32 TURN = 32 * WIDTH * DEPTH;
static_assert(TICKET % TURN == 0, "a ticket is whole turns");

// Every warp moves as many tickets as there are iterations, where Walk leads its block. `step` bytes lie between an
// element of a lane and its next one.
template <class Walk>
struct Static {
    static constexpr u32 step = BLOCK * WIDTH;
    Walk walk;
    const u64 turns;

    __device__ __forceinline__ Static(u64 bytes, u32 iterations)
        : walk(bytes, BLOCK * WIDTH * DEPTH, threadIdx.x * WIDTH), turns((u64)iterations * (TICKET / TURN)) {}

    template <class Turn>
    __device__ __forceinline__ void run(Turn move) {
#pragma unroll 1
        for (u64 i = 0; i < turns; ++i) {
            move(walk.at);
            walk.next();
        }
    }
    __device__ __forceinline__ void finish() {}
};

// How many tickets were drawn, and how many blocks have ended; each has a line of its own. They outlive a launch: its
// last block sets both to zero for the next one.
__device__ struct {
    alignas(128) u32 tickets;
    alignas(128) u32 blocks;
} drawn;

// All warps together move that many tickets. Ticket t is the t-th TICKET bytes of the buffer, from the start again
// behind the end. The next ticket is on its way while a warp works on this one. Warps begin at different turns of their
// tickets and go round: else all would begin at equal distances at once.
template <class Walk>
struct Dynamic {
    static constexpr u32 step = 32 * WIDTH;
    const u32 chunks, total, lane, origin;

    // 32 bits count some 100 TB. Of a launch that moves more the rest is left out: its time fits no line.
    __device__ __forceinline__ Dynamic(u64 bytes, u32 iterations)
        : chunks(bytes / TICKET), total(min((u64)gridDim.x * (BLOCK / 32) * iterations, 0xf0000000ull)),
          lane(threadIdx.x % 32), origin((blockIdx.x * (BLOCK / 32) + threadIdx.x / 32) * TURN % TICKET) {}

    template <class Turn>
    __device__ __forceinline__ void run(Turn move) {
        u32 coming = 0;
        draw(coming);
        u32 ticket = __shfl_sync(~0u, coming, 0);
        // A warp that has one ticket too many draws no more: the answer to all that it drew has come when it ends.
#pragma unroll 1
        while (ticket < total) {
            draw(coming);
            const u64 first = (u64)(ticket % chunks) * TICKET + lane * WIDTH;
            u32 inside = origin;
#pragma unroll 1
            do {
                move(first + inside);
                inside = (inside + TURN) % TICKET;
            } while (inside != origin);
            ticket = __shfl_sync(~0u, coming, 0);
        }
    }

    // Lane 0 adds one. By `inc` with a bound: of an `add`, and of an `inc` without, ptxas makes a vote of the warp on
    // who adds for all of it, and waits for the answer at once.
    __device__ __forceinline__ void draw(u32 &coming) const {
        asm volatile("{\n .reg .pred first;\n setp.eq.u32 first, %2, 0;\n"
                     " @first atom.global.inc.u32 %0, [%1], 0xfffffffe;\n}"
                     : "+r"(coming) : "l"(__cvta_generic_to_global(&drawn.tickets)), "r"(lane) : "memory");
    }

    // Behind the barrier of end(): all warps of the block have drawn their last. The last block cleans up.
    __device__ __forceinline__ void finish() {
        if (threadIdx.x != 0) return;
        __threadfence();
        if (atomicInc(&drawn.blocks, gridDim.x - 1) == gridDim.x - 1) drawn.tickets = 0;
    }
};
