"""CUDA kernels on the host's processor: what they compute, and that what they must not do is reported."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.diagnosis.host_run import KernelFailed, NotForTheHost, compile_case, run
from gpuprof.errors import EnvironmentProblem
from tests.table import each_row

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile for the host with")
pytestmark = [pytest.mark.compilers, needs_gxx]

Array = NDArray[Any]
Launch = Callable[..., None]
i32, u32 = ctypes.c_int32, ctypes.c_uint32

RIGHT = r"""
#include "case.cuh"
#define WARP_MASK 0xffffffffu

template <int WARPS> __device__ __forceinline__ float block_sum(float value) {
    __shared__ float parts[WARPS];
    for (int apart = 16; apart > 0; apart >>= 1)
        value += __shfl_down_sync(WARP_MASK, value, apart);
    if (threadIdx.x % warpSize == 0)
        parts[threadIdx.x / warpSize] = value;
    __syncthreads();
    value = threadIdx.x < WARPS ? parts[threadIdx.x] : 0.0f;
    if (threadIdx.x < warpSize)
        for (int apart = 16; apart > 0; apart >>= 1)
            value += __shfl_xor_sync(WARP_MASK, value, apart);
    return value;
}

extern "C" __global__ void __launch_bounds__(256) sums(const float *__restrict__ in, float *__restrict__ out, u32 n) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    const float sum = block_sum<8>(i < n ? in[i] : 0.0f);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

extern "C" __global__ void histogram(const u8 *in, u32 *bins, u32 n) {
    __shared__ u32 mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[in[i]], 1);
    __syncthreads();
    if (mine[threadIdx.x])
        atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

extern "C" __global__ void reversed(const float4 *in, float *out, u32 n) {
    extern __shared__ __align__(16) float held[];
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 *fours = reinterpret_cast<float4 *>(held);
    if (i < n)
        fours[threadIdx.x] = in[i];
    __syncthreads();
    if (i < n)
        for (u32 k = 0; k < 4; k++)
            out[4 * i + k] = held[4 * threadIdx.x + 3 - k];
}

extern "C" __global__ void early(const float *in, float *out, u32 n) {
    __shared__ float held[64];
    if (threadIdx.x >= n)
        return;
    held[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = held[n - 1 - threadIdx.x];
}

extern "C" __global__ void votes(u32 *out) {
    const u32 lane = threadIdx.x;
    u32 *mine = out + 10 * lane;
    mine[0] = __ballot_sync(WARP_MASK, lane % 3 == 0);
    mine[1] = __any_sync(WARP_MASK, lane == 31) + 2 * __all_sync(WARP_MASK, lane < 31);
    mine[2] = __match_any_sync(WARP_MASK, lane / 8);
    mine[3] = __reduce_add_sync(WARP_MASK, lane);
    mine[4] = (u32)__reduce_min_sync(WARP_MASK, 5 - (int)lane);
    mine[5] = lane % 2 ? __activemask() : 0;
    mine[6] = lane < 8 ? __reduce_max_sync(0xff, lane) : __reduce_max_sync(0xffffff00u, lane / 2);
    mine[7] = __syncthreads_count(lane < 5);
    mine[8] = __shfl_up_sync(WARP_MASK, lane, 3, 8);
    mine[9] = (u32)(__shfl_sync(WARP_MASK, (u64)lane << 33, 2, 16) >> 32);
}

extern "C" __global__ void locked(u32 *lock, u32 *count) {
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0u, 1u) == 0) {
            __syncwarp(1u << (threadIdx.x % 32));
            *count = *count + 1;
            __threadfence();
            atomicExch(lock, 0u);
            done = true;
        }
    }
}

extern "C" __global__ void neighbours(u32 *out) {
    __shared__ u32 held[64];
    held[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = threadIdx.x ? held[threadIdx.x - 1] : 0;
}

__constant__ int weights[3] = {1, 2, 3};

extern "C" __global__ void numbers(const u32 *in, u32 *out, u32 n) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const u32 x = in[i];
    u32 *mine = out + 8 * i;
    mine[0] = __popc(x) + 100 * __clz(x) + 10000 * __ffs(x);
    mine[1] = __brev(x);
    mine[2] = __umulhi(x, 0x9e3779b9u);
    mine[3] = __byte_perm(x, ~x, 0x5140);
    mine[4] = __funnelshift_l(x, ~x, 40);
    mine[5] = (u32)min((int)x, -7) ^ max(x, 1000u);
    mine[6] = __float_as_uint(__fmaf_rn(__int_as_float(0x3f800001), 3.0f, rsqrtf((float)(x | 1)))) & ~3u;
    mine[7] = __dp4a((int)x, 0x01020304, weights[i % 3]);
}

extern "C" __global__ void pipeline(const float *in, float *out, u32 steps) {
    extern __shared__ alignas(16) float stages[][64];
    if (threadIdx.x < 32) {
        for (u32 step = 0; step < steps; step++) {
            if (step >= 2)
                on_host::barrier(3 + step % 2, 96);
            for (u32 i = threadIdx.x; i < 64; i += 32)
                stages[step % 2][i] = in[64 * step + i];
            on_host::arrive(1 + step % 2, 96);
        }
        return;
    }
    for (u32 step = 0; step < steps; step++) {
        on_host::barrier(1 + step % 2, 96);
        out[64 * step + threadIdx.x - 32] = stages[step % 2][95 - threadIdx.x];
        if (step + 2 < steps)
            on_host::arrive(3 + step % 2, 96);
    }
}

extern "C" __global__ void halves(const float *in, u16 *half, float *back, u32 n) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        half[i] = on_host::f16_of_f32(in[i]), back[i] = on_host::f32_of_f16(i);
}
"""

WRONG = r"""
#include "case.cuh"

extern "C" __global__ void absent_lane(float *out) {
    float value = threadIdx.x;
    if (threadIdx.x != 5)
        value += __shfl_down_sync(0xffffffffu, value, 1);
    __syncthreads();
    out[threadIdx.x] = value;
}

extern "C" __global__ void divergent(float *out) {
    if (threadIdx.x % 2)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void without_itself(u32 *out) {
    out[threadIdx.x] = __ballot_sync(0xffff, 1);
}

extern "C" __global__ void writes(float *out, i32 at) {
    if (blockIdx.x == 1 && threadIdx.x == 2)
        out[at] = 1.0f;
}

extern "C" __global__ void reads(const float *in, float *out, i32 at) {
    out[0] = in[at];
}

extern "C" __global__ void beyond_shared(float *out, u32 at) {
    extern __shared__ float held[];
    held[at] = 1.0f;
    __syncthreads();
    out[0] = held[0];
}

extern "C" __global__ void beyond_array(float *out, u32 at) {
    __shared__ float held[8];
    float mine[4] = {};
    mine[at / 2] = 1.0f;
    held[at] = mine[at / 3];
    out[0] = held[0];
}

extern "C" __global__ void misaligned(const float *in, float4 *out) {
    out[0] = *reinterpret_cast<const float4 *>(in + 1);
}

extern "C" __global__ void endless(volatile u32 *flag) {
    while (*flag == 0) {
    }
}

extern "C" __global__ void promise(u32 n) {
    __builtin_assume(n % 4 == 0);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where libraries of these tests lie."""
    return tmp_path_factory.mktemp("on_host")


@pytest.fixture(scope="module")
def right(folder: Path) -> Launch:
    return launcher(RIGHT, "right", folder)


@pytest.fixture(scope="module")
def wrong(folder: Path) -> Launch:
    return launcher(WRONG, "wrong", folder)


def launcher(text: str, name: str, folder: Path) -> Launch:
    """Compile a source; return a function that runs its kernels."""
    library = compile_case(written(text, name, folder), folder)

    def launch(entry: str, blocks: Any, threads: Any, *arguments: object, shared: int = 0, **options: Any) -> None:
        run(library, entry, three(blocks), three(threads), shared, arguments, **options)

    return launch


def written(text: str, name: str, folder: Path) -> Path:
    path = folder / f"{name}.cu"
    path.write_text(text.lstrip("\n"), encoding="utf-8")
    return path


def three(sizes: int | tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*((sizes,) if isinstance(sizes, int) else sizes), 1, 1)[:3]
    return x, y, z


def zeros(count: int, dtype: str = "f4") -> Array:
    return np.zeros(count, dtype)


def test_block_reduction_with_shuffles_in_a_template(right: Launch) -> None:
    values, sums = np.random.default_rng(1).random(1000, dtype=np.float32), zeros(4)
    right("sums", 4, 256, values, sums, u32(1000))
    np.testing.assert_allclose(sums, np.pad(values, (0, 24)).reshape(4, 256).sum(axis=1), rtol=1e-6)


def test_threads_that_returned_do_not_hold_up_a_barrier(right: Launch) -> None:
    values, out = np.arange(40, dtype=np.float32), zeros(40)
    right("early", 1, 64, values, out, u32(40))
    assert (out == values[::-1]).all()


def test_votes_reductions_and_parts_of_a_warp(right: Launch) -> None:
    out = zeros(320, "u4")
    right("votes", 1, 32, out)
    lane = np.arange(32)
    expected = np.stack(
        [
            np.full(32, 0x49249249),
            np.full(32, 1),
            0xFF << (lane // 8 * 8),
            np.full(32, 31 * 16),
            np.full(32, 2**32 - 26),
            np.where(lane % 2, 0xAAAAAAAA, 0),
            np.where(lane < 8, 7, 15),
            np.full(32, 5),
            np.where(lane % 8 < 3, lane, lane - 3),
            2 * (lane // 16 * 16 + 2),
        ],
        axis=1,
    )
    assert (out.reshape(32, 10) == expected).all()


def test_a_thread_that_spins_lets_others_run(right: Launch) -> None:
    lock, count = zeros(1, "u4"), zeros(1, "u4")
    right("locked", 3, 100, lock, count)
    assert count[0] == 300


WRITES = "thread (2, 0, 0) of block (1, 0, 0) writes"


@each_row(
    ("entry", "arguments", "options", "told"),
    [
        ("absent_lane", [zeros(32)], {}, ["threads 0-4 6-31 wait at __shfl_down_sync with mask 0xffffffff (wrong.cu:6)",
                                          "threads 5 wait at __syncthreads (wrong.cu:7)"]),
        ("divergent", [zeros(32)], {}, ["thread 0", "line 15 of wrong.cu", "thread 1", "line 13"]),
        ("without_itself", [zeros(32, "u4")], {}, ["thread (16, 0, 0)", "__ballot_sync with mask 0xffff", "lane 16"]),
        ("writes", [zeros(100), i32(100)], {"names": ("out", "at")}, ["block (1, 0, 0)", "end of out"]),
        ("writes", [zeros(100), i32(-1)], {"names": ("out", "at")}, ["block (1, 0, 0)", "beginning of out"]),
        ("writes", [zeros(100), i32(1000)], {"names": ("out", "at")}, [WRITES, " 3600 bytes", "(wrong.cu:25)"]),
        ("writes", [zeros(100), i32(-5000)], {"names": ("out", "at")}, [WRITES, " 20000 bytes", "(wrong.cu:25)"]),
        ("reads", [zeros(64), zeros(1), i32(64)], {}, ["thread (0, 0, 0)", " 0 bytes", "argument 1"]),
        ("beyond_shared", [zeros(1), u32(8)], {"shared": 32}, ["dynamic shared memory", "32 bytes"]),
        ("beyond_shared", [zeros(1), u32(5000)], {"shared": 32}, ["dynamic shared memory", "32 bytes"]),
        ("beyond_array", [zeros(1), u32(8)], {}, ["(wrong.cu:42)"]),
        ("beyond_array", [zeros(1), u32(11)], {}, ["(wrong.cu:42)"]),
        ("misaligned", [zeros(8), zeros(8)], {}, ["aligned", "(wrong.cu:48)"]),
        ("endless", [zeros(1, "u4")], {"seconds": 0.1}, ["0.1 s"]),
        ("promise", [u32(7)], {}, ["__builtin_assume(n % 4 == 0)", "(wrong.cu"]),
    ],
)  # fmt: skip
def test_what_a_kernel_must_not_do_is_reported_with_thread_and_line(
    wrong: Launch, entry: str, arguments: list[Any], options: dict[str, Any], told: list[str]
) -> None:
    with pytest.raises(KernelFailed) as raised:
        wrong(entry, 2, 32, *arguments, **options)
    message = str(raised.value)
    assert message.startswith(f"{entry}: ")
    assert [text for text in told if text not in message] == [], message
    assert entry != "writes" or not arguments[0].any()


def test_what_a_kernel_may_do_is_no_failure_and_after_one_the_next_is_right(wrong: Launch, right: Launch) -> None:
    wrong("beyond_array", 1, 1, zeros(1), u32(7))
    wrong("promise", 1, 1, u32(8))
    with pytest.raises(KernelFailed):
        wrong("absent_lane", 2, 32, zeros(32))


@each_row(
    ("text", "place"),
    [
        ('\n__device__ int lane() { int l; asm("mov.u32 %0, %%laneid;" : "=r"(l)); return l; }', "a.cu:2:"),
        ("__global__ void __cluster_dims__(2, 1, 1) slow() {}", "a.cu:1:"),
        ("\n\n__global__ void slow() { nothing(); }", "a.cu:3:"),
        ("template <int N> __global__ void slow() {}", "a.cu"),
        ('#include "absent.cuh"\n__global__ void slow() {}', "a.cu:1:"),
    ],
)
def test_a_source_that_the_host_cannot_run_is_refused_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "a.cu"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotForTheHost) as raised:
        compile_case(path, tmp_path)
    assert place in str(raised.value)


def test_without_a_compiler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem):
        compile_case(written(WRONG, "wrong", tmp_path), tmp_path)
