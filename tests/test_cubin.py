"""Cubins of every toolkit and architecture are read to what cuobjdump and ncu say of them; broken ones are refused."""

from __future__ import annotations

import re
import struct
import subprocess
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.cubin import Cubin, CubinKernel, kernel_code, read_cubin
from gpuprof.sass.binary.cubin_attributes import CubinParameter
from gpuprof.sass.tools.programs import find_programs
from tests.cuda_tools import needs_cuda_wheels
from tests.device_code import cubin_for
from tests.elf_files import Content, attribute, cubin_file, symbol
from tests.table import each_row
from tests.test_nvrtc_releases import nvrtc_of

SOURCE = """
struct Wide { int x[7]; };
extern "C" __device__ __noinline__ float inner(float x) { return x * sinf(x); }
extern "C" __global__ void __launch_bounds__(128, 2) bounded(float *o, const float *a, int n, char c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    o[i] = inner(a[i]) / a[n] + c;
    asm volatile("bar.sync 3, 64;");
}
extern "C" __global__ void nothing() { }
extern "C" __global__ void shares(Wide s, double d, float *o)
{
    __shared__ double q[1000];
    q[threadIdx.x] = d;
    __syncthreads();
    o[0] = q[s.x[3]];
}
extern "C" __global__ void dynamic(float *o)
{
    extern __shared__ float q[];
    o[0] = q[threadIdx.x];
}
extern "C" __global__ void prints(int n) { printf("%d", n); }
"""
TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100f", "sm_110", "sm_121")
BANK = {7: 352, 8: 352, 9: 528, 10: 896, 11: 896, 12: 896}
"""Where parameters begin in constant bank 0, by the major compute capability."""


@cache
def cubin(target: str, *options: str, source: str = SOURCE, release: str = "13.5") -> bytes:
    """The source compiled by an NVRTC of a release."""
    nvrtc = nvrtc_of(release)
    assert nvrtc is not None
    outcome = nvrtc.compile(source, "source.cu", (f"--gpu-architecture={target}", *options))
    assert outcome.cubin is not None, outcome.log
    return outcome.cubin


def by_name(read: Cubin) -> dict[str, CubinKernel]:
    return {kernel.mangled: kernel for kernel in read.kernels}


@pytest.mark.compilers
@needs_cuda_wheels
@pytest.mark.skipif(not find_programs("cuobjdump"), reason="there is no cuobjdump")
@each_row("target", TARGETS)
def test_a_cubin_says_what_its_kernels_take(target: str, tmp_path: Path) -> None:
    data = cubin(target, "-lineinfo")
    read = read_cubin(data)
    kernels = by_name(read)
    assert (read.target, read.relocatable) == (target, False)
    assert sorted(kernels) == ["bounded", "dynamic", "nothing", "prints", "shares"]
    assert all(kernel.code == kernel_code(data, name) for name, kernel in kernels.items())
    bounded = kernels["bounded"]
    assert (bounded.max_threads, bounded.required_block, bounded.barriers) == (128, None, 4)
    sizes = ((0, 0, 8), (1, 8, 8), (2, 16, 4), (3, 20, 1))
    assert bounded.parameters == tuple(CubinParameter(ordinal=n, offset=at, size_bytes=size) for n, at, size in sizes)
    assert bounded.parameters_offset == BANK[int(re.sub(r"\D", "", target)) // 10]
    assert [parameter.size_bytes for parameter in kernels["shares"].parameters] == [28, 8, 8]
    nothing = kernels["nothing"]
    assert (nothing.parameters, nothing.barriers, nothing.stack_bytes, nothing.max_threads) == ((), 0, 0, None)
    shared = {name: kernel.static_shared_bytes for name, kernel in kernels.items()}
    assert shared == {"bounded": 0, "dynamic": 0, "nothing": 0, "prints": 0, "shares": 8000}
    # Functions inside a kernel.
    names = " ".join(function.name for function in bounded.inner)
    assert "inner" in names and "div_rn_noftz_f32_slowpath" in names
    assert [function.offset for function in bounded.inner] == sorted(function.offset for function in bounded.inner)
    assert max(function.offset + function.size_bytes for function in bounded.inner) <= len(bounded.code)
    assert not nothing.inner
    # Registers, stack and shared memory are those of cuobjdump, which counts what the driver reserves from Hopper on.
    file = tmp_path / "source.cubin"
    file.write_bytes(data)
    reserved = 1024 if int(re.sub(r"\D", "", target)) >= 90 else 0
    taken = {name: (item.registers, item.stack_bytes, item.static_shared_bytes) for name, item in kernels.items()}
    assert taken == usage_by_cuobjdump(file, reserved)


def usage_by_cuobjdump(file: Path, reserved: int) -> dict[str, tuple[int, int, int]]:
    tool = find_programs("cuobjdump")[0]
    text = subprocess.run([tool.path, "-res-usage", file], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", text)
    return {name: (int(count), int(stack), max(0, int(shared) - reserved)) for name, count, stack, shared in rows}


LARGE = "struct Large { int x[5000]; }; __global__ void f(const __grid_constant__ Large l, int *o) { *o = l.x[*o]; }"
TO_BE_LINKED = """
extern __device__ float other(float);
__global__ void calls(float *a) { __shared__ float t[512]; t[threadIdx.x] = *a; *a = other(t[0]); }
"""


@pytest.mark.compilers
@needs_cuda_wheels
def test_what_compilers_write_by_option_is_read() -> None:
    (kernel,) = read_cubin(cubin("sm_90", source=LARGE)).kernels
    assert [(item.offset, item.size_bytes) for item in kernel.parameters] == [(0, 20_000), (20_000, 8)]
    # What is to be linked calls what is elsewhere; the linker adds its stack, and what the driver reserves.
    read = read_cubin(cubin("sm_90", "--relocatable-device-code=true", source=TO_BE_LINKED))
    (kernel,) = read.kernels
    assert (read.relocatable, kernel.stack_bytes, kernel.static_shared_bytes) == (True, None, 2048)


# Made by hand


def test_a_kernel_made_by_hand_is_read() -> None:
    info = attribute(0x05, struct.pack("<III", 32, 4, 2)) + attribute(0x17, struct.pack("<IHHI", 0, 0, 8, 4 << 18))
    read = read_cubin(cubin_file(info=info))
    (kernel,) = read.kernels
    assert (read.target, kernel.mangled, kernel.registers, kernel.code) == ("sm_90", "kernel", 24, bytes(range(128)))
    assert (kernel.max_threads, kernel.stack_bytes, kernel.barriers) == (256, None, 0)
    assert kernel.parameters == (CubinParameter(ordinal=0, offset=8, size_bytes=4),)


@each_row(
    ("info", "why"),
    [
        (b"\4\x17\x0c\0", "truncated"),
        (b"\4\x17\x0c", "truncated"),
        (b"\7\x17\0\0", "form 7"),
    ],
)
def test_attributes_that_do_not_parse_are_damage(info: bytes, why: str) -> None:
    with pytest.raises(DamagedInput, match=why):
        read_cubin(cubin_file(info=info))


def test_attributes_that_cannot_be_are_not_known() -> None:
    none = struct.pack("<III", 0, 4, 2)
    (kernel,) = read_cubin(cubin_file(info=attribute(0x05, none) + attribute(0x10, b"\1\2"))).kernels
    assert (kernel.max_threads, kernel.required_block) == (None, None)


@each_row(
    ("symbols", "why"),
    [
        (bytes(24) + symbol(1, 77), "does not have"),
        (bytes(24) + symbol(5000, 3), "has no end"),
        (bytes(24) + symbol(1, 3) + symbol(1, 3, value=4096, entry=False), "outside its code"),
    ],
)
def test_symbols_that_cannot_be_are_damage(symbols: bytes, why: str) -> None:
    with pytest.raises(DamagedInput, match=why):
        read_cubin(cubin_file(symbols=symbols))


def test_sections_that_overlap_are_refused_before_they_are_copied() -> None:
    liars = [Content(f".text.{number}", kind=1, size=100_000_000) for number in range(50)]
    with pytest.raises(DamagedInput, match="sections hold 5,000,000,"):
        read_cubin(cubin_file(*liars))


@given(st.binary(max_size=300))
def test_bytes_that_are_no_cubin_are_damage(content: bytes) -> None:
    for start in (b"", b"\x7fELF\x02\x01", cubin_file()[:64]):
        with pytest.raises(DamagedInput):
            read_cubin(start + content)


@given(st.data(), st.sampled_from(["sm_80", "sm_90a", "sm_100f"]))
def test_a_cubin_that_was_altered_is_read_or_refused(data: st.DataObject, target: str) -> None:
    content = bytearray(cubin_for(target))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(content) - 8))
        big = data.draw(st.sampled_from([0, 1, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63, 2**64 - 1]))
        size = data.draw(st.sampled_from([1, 2, 4, 8]))
        content[at : at + size] = (big % 2 ** (8 * size)).to_bytes(size, "little")
    try:
        read = read_cubin(bytes(content[: data.draw(st.integers(0, len(content)))]))
    except DamagedInput as error:
        assert len(error.message) < 1000
    else:
        assert sum(len(kernel.code) for kernel in read.kernels) <= 2 * len(content)


@given(st.data())
def test_attributes_that_were_altered_are_read_or_refused(data: st.DataObject) -> None:
    try:
        read_cubin(cubin_file(info=data.draw(st.binary(max_size=64)), symbols=data.draw(st.binary(max_size=120))))
    except DamagedInput as error:
        assert error.message
