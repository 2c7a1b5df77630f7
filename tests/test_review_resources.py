"""What a kernel takes by its cubin and code: registers, shared memory, spills, occupancy and its next step."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.occupancy import LaunchResources, theoretical_occupancy
from gpuprof.model.session import Finding
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.contract import CodeOccupancy
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.resources import occupancy_of, resources_of
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.review.registry import CODE_RULES
from gpuprof.sass.binary.cubin import CubinKernel, InnerFunction, kernel_code, read_cubin
from gpuprof.sass.binary.local_memory import LocalMemory, local_memory
from gpuprof.sass.instruction import parse_sass
from gpuprof.sass.requests import width_bytes
from gpuprof.sass.tools.disassemble import disassemble, disassembler_for
from gpuprof.sass.tools.nvrtc import find_nvrtc
from gpuprof.words.findings import with_sentences
from tests.conftest import OWN_REPORTS
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row

EMPTY = CubinKernel(mangled="k", code=b"")


def arch(name: str) -> ArchSpec:
    spec = SpecLibrary().arch(name)
    assert spec is not None
    return spec


def made(
    target: str = "sm_80",
    sass: str = "EXIT",
    kernel: CubinKernel = EMPTY,
    *,
    block: tuple[int, int, int] | None = (256, 1, 1),
    dynamic: int | None = None,
    cubin: bytes = b"",
) -> CodeFacts:
    """A kernel of these instructions, one a line."""
    text = "\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate(sass.strip().splitlines()))
    shape = KnownLaunch(block=block, dynamic_shared_bytes=dynamic)
    compiled = CompiledKernel(name="k", target=target, origin="k.cubin", cubin=cubin, kernel=kernel, shape=shape)
    return CodeFacts(kernel=compiled, code=parse_sass(text), lines={}, arch=arch(target))


def occupancy(code: CodeFacts) -> CodeOccupancy:
    computed = occupancy_of(code, resources_of(code, {}))
    assert computed is not None
    return computed


def taking(registers: int | None = 32, shared: int = 0, **more: object) -> CubinKernel:
    return structs.replace(EMPTY, registers=registers, static_shared_bytes=shared, **more)


# Reports.


def agreed(path: Path) -> int:
    """Compare what the code of a report says with what ncu recorded; of how many launches.

    Registers, of which a thread has 16 at least, static shared memory, theoretical occupancy.
    """
    report, compared = read_ncu_rep(path, salvage=True), 0
    for launch in report.launches:
        program, counted = launch.details.program(), launch.metrics.number
        capability = report.devices[launch.device].compute_capability
        registers = counted("launch__registers_per_thread")
        if program is None or registers is None or capability is None:
            continue
        (kernel,) = (kernel for kernel in read_cubin(program.cubin).kernels if kernel.mangled == program.mangled)
        assert max(16, kernel.registers or 0) == registers
        assert kernel.static_shared_bytes == counted("launch__shared_mem_per_block_static")
        assert len(kernel.code) % 128 == 0 and kernel_code(program.cubin, program.mangled) == kernel.code
        assert kernel.max_threads is None or math.prod(launch.block or ()) <= kernel.max_threads
        dynamic = round(counted("launch__shared_mem_per_block_dynamic") or 0)
        code = made(f"sm_{capability.replace('.', '')}", kernel=kernel, block=launch.block, dynamic=dynamic)
        theoretical = counted("sm__maximum_warps_per_active_cycle_pct")
        assert theoretical is None or 100 * occupancy(code).fraction == pytest.approx(theoretical)
        compared += theoretical is not None
    return compared


def test_what_a_cubin_says_is_what_the_report_counted() -> None:
    for path in OWN_REPORTS:
        assert agreed(path), path


# Occupancy by hand.


@each_row(
    ("code", "blocks", "fraction", "limiters", "steps"),
    [
        # 72 × 32 = 2 304 registers a warp: 16 384 ÷ 2 304 = 7 warps a sub-partition, 28 an SM, 3 blocks of 8 warps.
        (made(kernel=taking(72)), 3, 0.375, ("registers",), [("registers", 64, 4, 0.5)]),
        # 255 registers, rounded to 256: 2 warps a sub-partition; with 168: 3 of them, 12 blocks of a warp and not 8.
        (made(kernel=taking(255), block=(32, 1, 1)), 8, 0.125, ("registers",), [("registers", 168, 12, 0.1875)]),
        # 48 + 1 KiB: 4 blocks of 228 KiB. A fifth fits into 228 KiB ÷ 5, rounded down to 128 B: 46 592 − 1 024 B.
        (made("sm_90", kernel=taking(32, 48 << 10), block=(128, 1, 1)), 4, 0.25, ("shared memory",),
         [("shared memory", 45_568, 5, 0.3125)]),
        # An SM of sm_86 has 48 warp slots: one block of 32 warps, or two of 24.
        (made("sm_86", kernel=taking(32), block=(1024, 1, 1)), 1, 2 / 3, ("block size",),
         [("block size", 768, 2, 1.0)]),
        (made(kernel=taking(32), block=(32, 1, 1)), 32, 0.5, ("blocks",), [("blocks", 64, 32, 1.0)]),
        (made(kernel=taking(32, max_threads=32), block=(32, 1, 1)), 32, 0.5, ("blocks",), []),
        # One block of either: 80 registers of 768 threads, and 68 of 100 KiB.
        (made("sm_86", kernel=taking(80, 67_712), block=(768, 1, 1)), 1, 0.5, ("registers", "shared memory"),
         [("registers", 40, 2, 1.0), ("shared memory", 50_176, 2, 1.0)]),
        (made(kernel=taking(32)), 8, 1.0, (), []),
        (made(kernel=taking(255), block=(1024, 1, 1)), 0, 0.0, ("registers",), [("registers", 64, 1, 0.5)]),
        # 40 + 1 KiB: 4 blocks of 164 KiB, of which a fifth is 33 536 B in steps of 128.
        (made(kernel=taking(32, 40_960)), 4, 0.5, ("shared memory",), [("shared memory", 32_512, 5, 0.625)]),
        (made(kernel=taking(32, 8_192), dynamic=32_768), 4, 0.5, ("shared memory",),
         [("shared memory", 32_512, 5, 0.625)]),
        # 16 warps of registers, and no dynamic shared memory that would make less of it.
        (made(kernel=taking(32, required_block=(64, 2, 1)), block=None), 16, 1.0, (), []),
    ],
)  # fmt: skip
def test_occupancy_and_its_next_step_by_hand(
    code: CodeFacts, blocks: int, fraction: float, limiters: tuple[str, ...], steps: list[tuple[str, int, int, float]]
) -> None:
    computed = occupancy(code)
    assert (computed.blocks_per_sm, computed.limiters) == (blocks, limiters)
    assert computed.fraction == pytest.approx(fraction)
    assert [(step.resource, step.to, step.blocks_per_sm, step.fraction) for step in computed.steps] == steps


@each_row(
    ("shared", "dynamic", "sass", "is_at_most"),
    [
        (0, None, "STS [R0], R1", True),
        (512, None, "STS [R0], R1", True),
        (0, None, "QSPC.E.S P0, RZ, [R2]\nATOMS.CAST.SPIN R4, [R2], R4, R5", True),
        (0, 4096, "STS [R0], R1", False),
        (0, None, "EXIT", False),
    ],
)
def test_what_is_not_known_of_dynamic_shared_memory_is_said(
    shared: int, dynamic: int | None, sass: str, is_at_most: bool
) -> None:
    computed = occupancy(made(sass=sass, kernel=taking(32, shared), dynamic=dynamic))
    assert (computed.fraction, "--dynamic-shared" in computed.sentence) == (1.0, is_at_most)


def test_of_what_is_not_known_nothing_is_said() -> None:
    for code in (
        made(kernel=taking(32), block=None),
        made(kernel=taking(None)),
        replace(made(kernel=taking(32)), arch=None),
    ):
        assert occupancy_of(code, resources_of(code, {})) is None
    taken = resources_of(replace(made(kernel=taking(40)), code=(), unread="there is none"), {})
    assert (taken.registers, taken.code_bytes, taken.instructions, taken.spills) == (40, None, None, None)
    coded = made(kernel=structs.replace(taking(40), code=bytes(64)))
    unread = resources_of(replace(coded, code=(), unread="nvdisasm crashed"), {})
    assert (unread.registers, unread.code_bytes, unread.instructions) == (40, 64, None)
    assert (unread.spills, unread.barriers) == (None, None)
    unknown = made(kernel=taking(72), block=None)
    assert findings(unknown, "block-size") == findings(unknown, "low-occupancy") == []


@given(
    registers=st.integers(0, 2**32), shared=st.integers(0, 2**40), threads=st.integers(1, 2**31),
    target=st.sampled_from(["sm_75", "sm_80", "sm_86", "sm_90", "sm_120"]),
)  # fmt: skip
def test_numbers_of_any_size_have_an_occupancy(registers: int, shared: int, threads: int, target: str) -> None:
    computed = occupancy(made(target, kernel=taking(registers, shared), block=(threads, 1, 1)))
    assert 0.0 <= computed.fraction <= 1.0


@given(
    registers=st.integers(16, 255), shared=st.integers(0, 100_000), warps=st.integers(1, 32),
    target=st.sampled_from(["sm_75", "sm_80", "sm_86", "sm_90", "sm_120"]),
)  # fmt: skip
def test_a_step_raises_occupancy_and_no_smaller_one_does(registers: int, shared: int, warps: int, target: str) -> None:
    code = made(target, kernel=taking(registers, shared), block=(32 * warps, 1, 1))
    now, spec = occupancy(code), arch(target)
    reserved = spec.limit("shared_reserved_per_block")

    def then(registers: int, shared: int) -> float:
        needs = LaunchResources(32 * warps, registers, shared + reserved, reserved_shared_bytes=reserved)
        computed = theoretical_occupancy(needs, spec)
        return computed.fraction if computed is not None else 0.0

    for step in now.steps:
        assert step.fraction > now.fraction
        if len(now.limiters) == 1 and step.resource == "registers":
            assert then(step.to, shared) == step.fraction > then(step.to + 1, shared)
        elif len(now.limiters) == 1 and step.resource == "shared memory":
            assert then(registers, step.to) == step.fraction > then(registers, step.to + 1)


# Local memory and barriers.


def test_spills_are_told_by_fixed_slots_of_the_stack() -> None:
    code = made(sass="IADD3 R1, R1, -0x10, RZ\nSTL.64 [R1+0x8], R4\nSTL [R1], R2\nLDL.LU.64 R4, [R1+0x8]\nLDL R2, [R1]")
    spills = resources_of(code, {0x30: 0}).spills
    assert spills is not None
    assert (spills.loads, spills.stores, spills.load_bytes, spills.store_bytes, spills.in_loops) == (2, 2, 12, 12, 1)
    none = resources_of(made(), {}).spills
    assert none is not None and none.loads == none.stores == 0


GUESSED = "STL [R1], R4\nSTL [R1+0x80], R5\nIMAD R3, R0, 0x4, R1\nLDL R2, [R3]\nLDL R6, [R1]\nLDL.LU R5, [R1+0x80]"


def test_arrays_that_are_indexed_and_what_functions_save_are_told_apart() -> None:
    local = made(sass="STL.128 [R1], R4\nIMAD R3, R0, 0x4, R1\nLDL R2, [R3]").local_memory
    assert [access.address for access in local.arrays] == [0x00, 0x20]
    assert (local.spills, local.guessed) == ((), False)
    # Spills behind an array are a guess, and not counted.
    local = made(sass=GUESSED).local_memory
    assert ([access.address for access in local.spills], local.guessed) == ([0x10, 0x50], True)
    assert resources_of(made(sass=GUESSED), {}).spills is None
    # What a function saves for its caller counts as spills.
    kernel = structs.replace(EMPTY, inner=(InnerFunction(name="f", offset=0x20, size_bytes=0x30),))
    saves = "LEA R3, R0, R1, 0x2\nSTL [R3], R4\nSTL [R1], R16\nLDL R16, [R1]\nRET"
    local = made(sass=saves, kernel=kernel).local_memory
    assert [access.address for access in local.spills] == [0x20, 0x30]
    assert [access.address for access in local.arrays] == [0x10]


def test_barriers_are_those_that_the_cubin_names() -> None:
    named = structs.replace(EMPTY, barriers=7)
    assert [resources_of(made(kernel=kernel), {}).barriers for kernel in (EMPTY, named)] == [None, 7]


SPILLING = """
template <typename T> __device__ __forceinline__ void turn(T* a, const T* b, int n, int t) {
  T v[40];
#pragma unroll
  for (int i = 0; i < 40; i++) v[i] = b[t + i * n];
  for (int k = 0; k < n; k++)
#pragma unroll
    for (int i = 0; i < 40; i++) v[i] = v[i] * v[(i * 7 + 3) % 40] + b[k];
#pragma unroll
  for (int i = 0; i < 40; i++) a[t + i * n] = v[i];
}
extern "C" __global__ void spills(double* a, const double* b, int n) { turn(a, b, n, threadIdx.x); }
extern "C" __global__ void both(float* a, const float* b, int n) {
  float v[40];
  for (int i = 0; i < 40; i++) v[i] = b[threadIdx.x + i * n];
  for (int k = 0; k < n; k++) v[(k * 7 + threadIdx.x) % 40] += b[k];
  turn(a, b, n, threadIdx.x);
  for (int i = 0; i < 40; i++) a[i] = v[i];
}
extern "C" __global__ void array(float* a, const float* b, int n) {
  float v[40];
  for (int i = 0; i < 40; i++) v[i] = b[threadIdx.x + i * n];
  a[threadIdx.x] = v[n % 40];
}
__device__ __noinline__ float deeper(float x, int n) { return n <= 0 ? x : deeper(x * 0.5f + n, n - 1) + x; }
extern "C" __global__ void saves(float* a, int n) { a[threadIdx.x] = deeper(a[threadIdx.x], n); }
"""
_PROPERTIES = re.compile(
    r"Function properties for (\S+)\s.*?(\d+) bytes spill stores, (\d+) bytes spill loads", re.DOTALL
)


@pytest.mark.compilers
@needs_cuda_wheels
@each_row("target", ["sm_75", "sm_90", "sm_120"])
def test_spills_are_those_that_ptxas_reports(target: str) -> None:
    """By its marks in the cubin, and without them by the addresses."""
    options = [f"-arch={target}", "-maxrregcount=32", "--ptxas-options=-v"]
    outcome = find_nvrtc()[0].compile(SPILLING, "spills.cu", options)
    assert outcome.cubin is not None
    told = {name: (int(stores), int(loads)) for name, stores, loads in _PROPERTIES.findall(outcome.log)}
    assert told["spills"][0] > 0
    assert told["both"][0] > 0
    expected = {name: told[name] for name in ("spills", "both", "array")} | {"saves": told["_Z6deeperfi"]}
    kernels = read_cubin(outcome.cubin).kernels
    assert all(kernel.spills for kernel in kernels if kernel.mangled in ("spills", "both"))
    assert _spilled(target, kernels) == expected
    assert _spilled(target, [structs.replace(kernel, spills=None) for kernel in kernels]) == expected


def _spilled(target: str, kernels: Sequence[CubinKernel]) -> dict[str, tuple[int, int]]:
    """Return the bytes that each kernel's spills store and load."""
    tool = disassembler_for(target)
    assert tool is not None
    codes = disassemble(tool, target, [kernel.code for kernel in kernels])
    amounts = {}
    for kernel, code in zip(kernels, codes, strict=True):
        local = local_memory(kernel, code)
        amounts[kernel.mangled] = (_bytes(local, "STL"), _bytes(local, "LDL"))
    return amounts


def _bytes(local: LocalMemory, opcode: str) -> int:
    return sum(width_bytes(access) for access in local.spills if access.name == opcode)


# Rules.


def findings(code: CodeFacts, rule: str) -> list[Finding]:
    return [with_sentences(finding) for item in CODE_RULES if item.id == rule for finding in item.check(code)]


def test_spills_and_arrays_are_told_with_their_instructions() -> None:
    sass = "STL.64 [R1+0x8], R4\nLDL.LU.64 R4, [R1+0x8]\nEXIT"
    (finding,) = findings(made(sass=sass, kernel=taking(255)), "local-memory-spill")
    assert (finding.confidence, finding.cases.why[0]) == ("inferred", "no-more-registers")
    assert [place.sass for place in finding.places] == ["STL.64 [R1+0x8], R4", "LDL.LU.64 R4, [R1+0x8]"]
    assert {(item.metric, item.value, item.unit) for item in finding.evidence} >= {("STL", 8.0, "B"), ("LDL", 8.0, "B")}
    (capped,) = findings(made(sass=sass, kernel=taking(64)), "local-memory-spill")
    # Those of functions that are called are not put on a register cap.
    called = taking(24, inner=(InnerFunction(name="_Z3fibi", offset=0x20, size_bytes=0x30),))
    calls = "CALL.REL.NOINC 0x20\nEXIT\nSTL [R1], R16\nLDL R16, [R1]\nRET.REL.NODEC R20 0x0"
    (saved,) = findings(made(sass=calls, kernel=called), "local-memory-spill")
    assert [item.cases.action for item in (finding, capped, saved)] == [
        ("lower-pressure",), ("raise-cap",), ("called-functions",)
    ]  # fmt: skip
    spilled, indexed = findings(made(sass=GUESSED), "local-memory-spill")
    assert (spilled.confidence, indexed.confidence) == ("guess", "inferred")
    for address in ("[R3]", "[R10]", "[R10+0x4]", "[R1+UR4]"):
        array = made(sass=f"STL.128 [R1], R4\nIMAD R3, R0, 0x4, R1\nLDL R2, {address}")
        assert [place.pc for place in findings(array, "local-memory-spill")[0].places] == [0x20]
    # Arguments of printf are none.
    assert findings(made(sass="STL [R1], R0\nIADD3 R6, P0, R1, c[0x0][0x20], RZ\nEXIT"), "local-memory-spill") == []


def test_few_warps_name_the_limiter_and_the_step_as_a_guess() -> None:
    """168 × 32 = 5 376 registers a warp: 3 warps a sub-partition, 12 an SM."""
    (finding,) = findings(made(kernel=taking(168), block=(128, 1, 1)), "low-occupancy")
    amounts = {amount.name: amount.value for amount in finding.amounts}
    assert (finding.confidence, finding.cases.headline, amounts["theoretical"]) == ("guess", ("main",), 0.1875)
    assert finding.cases.action == ("main", "step-registers")
    assert (amounts["registers"], amounts["blocks_then"], amounts["occupancy_then"]) == (128, 4, 0.25)
    assert (finding.evidence[0].value, finding.evidence[0].threshold) == (3.0, 4.0)
    (fails,) = findings(made(kernel=taking(255), block=(1024, 1, 1)), "low-occupancy")
    assert (fails.confidence, fails.cases.headline) == ("inferred", ("no-block-fits",))


@each_row(
    ("registers", "sass"),
    [
        (128, "EXIT"),
        (72, "EXIT"),
        (168, "HMMA.16816.F32 R4, R8, R12, R4"),
        (168, "LDGSTS.E.BYPASS.128 [R4], [R8.64]"),
    ],
)
def test_four_warps_a_scheduler_or_work_in_flight_are_no_finding(registers: int, sass: str) -> None:
    assert findings(made(sass=sass, kernel=taking(registers), block=(128, 1, 1)), "low-occupancy") == []


@each_row(
    ("threads", "most", "is_told"),
    [(48, None, True), (1, None, True), (1000, None, False), (256, None, False), (256, 128, True)],
)
def test_blocks_with_empty_lanes_or_above_the_launch_bounds_are_told(
    threads: int, most: int | None, is_told: bool
) -> None:
    """1 000 threads leave 24 of 1 024 lanes empty: 2.3 %, under 3 %."""
    kernel = taking(32, max_threads=most)
    assert len(findings(made(kernel=kernel, block=(threads, 1, 1)), "block-size")) == is_told
