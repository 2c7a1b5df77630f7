"""What a kernel takes by its cubin and code: registers, shared memory, spills, occupancy and its next step."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gpuprof.code.binary import local_memory
from gpuprof.code.binary.cubin import CubinKernel, InnerFunction, read_cubin
from gpuprof.code.binary.local_memory import LocalMemory
from gpuprof.code.sass.instruction import parse_sass
from gpuprof.code.sass.requests import width_bytes
from gpuprof.code.tools.disassemble import disassemble, disassembler_for
from gpuprof.code.tools.nvrtc import find_nvrtc
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.occupancy import LaunchResources, theoretical_occupancy
from gpuprof.model.recorded import Launch
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.case import CodeCase
from gpuprof.review.code import KernelCode
from gpuprof.review.contract import CodeFinding, CodeOccupancy
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.review.resources import local_memory_of, occupancy_of, resources_of
from gpuprof.review.rules import resources as rules
from tests.cuda_tools import needs_cuda_wheels
from tests.reviewed_code import compiled_cases
from tests.table import each_row

LEAST_REGISTERS = 16
"""What reports say of kernels that need fewer: the driver allocates no less."""
EMPTY = CubinKernel(mangled="k", code=b"")


def arch(name: str) -> ArchSpec:
    found_arch = SpecLibrary().arch(name)
    assert found_arch is not None
    return found_arch


def made(
    target: str = "sm_80",
    sass: str = "EXIT",
    kernel: CubinKernel = EMPTY,
    *,
    block: tuple[int, int, int] | None = (256, 1, 1),
    dynamic: int | None = None,
    cubin: bytes = b"",
) -> KernelCode:
    """A kernel of these instructions, one a line."""
    text = "\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate(sass.strip().splitlines()))
    shape = KnownLaunch(block=block, dynamic_shared_bytes=dynamic)
    compiled = CompiledKernel(name="k", target=target, origin="k.cubin", cubin=cubin, kernel=kernel, shape=shape)
    return KernelCode(kernel=compiled, code=parse_sass(text), lines={}, arch=arch(target))


def occupancy(code: KernelCode) -> CodeOccupancy:
    computed = occupancy_of(code, resources_of(code, {}))
    assert computed is not None
    return computed


def taking(registers: int | None = 32, shared: int = 0, **more: object) -> CubinKernel:
    return structs.replace(EMPTY, registers=registers, static_shared_bytes=shared, **more)


# Reports.


def test_what_a_cubin_says_is_what_the_report_counted(real_report: Path) -> None:
    """Registers, static shared memory, theoretical occupancy, and the blocks that it comes from."""
    if real_report.suffix not in {".ncu-rep", ".nsight-cuprof-report"}:
        pytest.skip("no report of Nsight Compute")
    report = read_ncu_rep(real_report)
    compared = [_compared(launch, report.devices[launch.device].compute_capability) for launch in report.launches]
    assert any(compared)


def _compared(launch: Launch, capability: str | None) -> bool:
    program, counted = launch.details.program(), launch.metrics.number
    if program is None or counted("launch__registers_per_thread") is None or capability is None:
        return False
    (kernel,) = (kernel for kernel in read_cubin(program.cubin).kernels if kernel.mangled == program.mangled)
    dynamic = round(counted("launch__shared_mem_per_block_dynamic") or 0)
    code = made(f"sm_{capability.replace('.', '')}", kernel=kernel, block=launch.block, dynamic=dynamic)
    assert max(LEAST_REGISTERS, kernel.registers or 0) == counted("launch__registers_per_thread")
    assert kernel.static_shared_bytes == counted("launch__shared_mem_per_block_static")
    computed = occupancy(code)
    theoretical = counted("sm__maximum_warps_per_active_cycle_pct")
    assert theoretical is None or 100 * computed.fraction == pytest.approx(theoretical)
    return theoretical is not None


# Occupancy by hand.


def test_registers_limit_and_eight_fewer_let_one_more_block_in() -> None:
    """72 × 32 = 2 304 registers a warp: 16 384 ÷ 2 304 = 7 warps a sub-partition, 28 an SM, 3 blocks of 8 warps."""
    computed = occupancy(made(kernel=taking(72)))
    assert (computed.blocks_per_sm, computed.warps_per_sm, computed.fraction) == (3, 24, 0.375)
    assert computed.limiters == ("registers",)
    assert computed.sentence == "3 blocks (24 warps) per SM, 38 % of its warp slots, limited by registers"
    (step,) = computed.steps
    assert (step.resource, step.to, step.blocks_per_sm, step.fraction) == ("registers", 64, 4, 0.5)
    assert step.sentence == "at 64 registers per thread one more block fits (50 % occupancy)"


def test_a_step_may_let_several_blocks_in() -> None:
    """255 registers, rounded to 256: 2 warps a sub-partition; with 168: 3 of them, 12 blocks of a warp and not 8."""
    (step,) = occupancy(made(kernel=taking(255), block=(32, 1, 1))).steps
    assert (step.to, step.blocks_per_sm) == (168, 12)
    assert step.sentence == "at 168 registers per thread four more blocks fit (19 % occupancy)"


def test_shared_memory_limits_with_what_the_driver_keeps() -> None:
    """48 + 1 KiB: 4 blocks of 228 KiB. A fifth fits into 228 KiB ÷ 5, rounded down to 128 B: 46 592 − 1 024 B."""
    computed = occupancy(made("sm_90", kernel=taking(32, 48 << 10), block=(128, 1, 1)))
    assert (computed.blocks_per_sm, computed.fraction, computed.limiters) == (4, 0.25, ("shared memory",))
    (step,) = computed.steps
    assert (step.resource, step.to, step.blocks_per_sm) == ("shared memory", 45_568, 5)
    assert "at 45\u202f568 B of shared memory per block one more block fits" in step.sentence


def test_dynamic_shared_memory_counts_as_static_does() -> None:
    static, dynamic = made(kernel=taking(32, 40_960)), made(kernel=taking(32, 8_192), dynamic=32_768)
    assert occupancy(static).blocks_per_sm == occupancy(dynamic).blocks_per_sm == 4


def test_a_block_that_does_not_divide_the_warp_slots() -> None:
    """An SM of sm_86 has 48 warp slots: one block of 32 warps, or two of 24."""
    computed = occupancy(made("sm_86", kernel=taking(32), block=(1024, 1, 1)))
    assert computed.fraction == pytest.approx(2 / 3)
    assert computed.limiters == ("block size",)
    (step,) = computed.steps
    assert (step.resource, step.to, step.blocks_per_sm, step.fraction) == ("block size", 768, 2, 1.0)
    assert step.sentence == "at 768 threads per block 2 blocks fit (100 % occupancy)"


def test_blocks_of_one_warp_fill_no_sm() -> None:
    computed = occupancy(made(kernel=taking(32), block=(32, 1, 1)))
    assert (computed.blocks_per_sm, computed.fraction, computed.limiters) == (32, 0.5, ("blocks",))
    assert [(step.to, step.fraction) for step in computed.steps] == [(64, 1.0)]
    bounded = made(kernel=taking(32, max_threads=32), block=(32, 1, 1))
    assert occupancy(bounded).steps == ()


def test_registers_and_shared_memory_that_bind_together_change_together() -> None:
    """One block of either: 80 registers of 768 threads, and 68 of 100 KiB."""
    computed = occupancy(made("sm_86", kernel=taking(80, 67_712), block=(768, 1, 1)))
    assert (computed.blocks_per_sm, computed.limiters) == (1, ("registers", "shared memory"))
    assert {(step.resource, step.to) for step in computed.steps} == {("registers", 40), ("shared memory", 50_176)}
    (sentence,) = {step.sentence.partition(" and ")[0] for step in computed.steps}
    assert sentence == "at 40 registers per thread"


def test_full_occupancy_has_neither_limiter_nor_step() -> None:
    computed = occupancy(made(kernel=taking(32)))
    assert (computed.fraction, computed.limiters, computed.steps) == (1.0, (), ())
    assert computed.sentence == "8 blocks (64 warps) per SM, 100 % of its warp slots"


def test_a_block_that_does_not_fit_is_no_occupancy() -> None:
    computed = occupancy(made(kernel=taking(255), block=(1024, 1, 1)))
    assert (computed.blocks_per_sm, computed.fraction, computed.limiters) == (0, 0.0, ("registers",))
    assert computed.sentence == "no block of this size fits on an SM, by its registers"
    assert [step.to for step in computed.steps] == [64]


@each_row(
    ("shared", "dynamic", "sass", "said"),
    [
        (0, None, "STS [R0], R1",
         ", at most: it uses dynamic shared memory of a size that is not known (--dynamic-shared BYTES)"),
        (512, None, "STS [R0], R1",
         ", at most: the launch may add dynamic shared memory (--dynamic-shared BYTES)"),
        (0, None, "QSPC.E.S P0, RZ, [R2]\nATOMS.CAST.SPIN R4, [R2], R4, R5",
         ", at most: the launch may add dynamic shared memory (--dynamic-shared BYTES)"),
        (0, 4096, "STS [R0], R1", ""),
        (0, None, "EXIT", ""),
    ],
)  # fmt: skip
def test_what_is_not_known_of_dynamic_shared_memory_is_said(
    shared: int, dynamic: int | None, sass: str, said: str
) -> None:
    sentence = occupancy(made(sass=sass, kernel=taking(32, shared), dynamic=dynamic)).sentence
    assert sentence == f"8 blocks (64 warps) per SM, 100 % of its warp slots{said}"


def test_without_block_registers_or_limits_there_is_no_occupancy() -> None:
    for code in (
        made(kernel=taking(32), block=None),
        made(kernel=taking(None)),
        replace(made(kernel=taking(32)), arch=None),
    ):
        assert occupancy_of(code, resources_of(code, {})) is None
    required = made(kernel=taking(32, required_block=(64, 2, 1)), block=None)
    assert occupancy(required).blocks_per_sm == 16


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


def test_an_array_that_is_indexed_is_no_spill() -> None:
    local = local_memory_of(made(sass="STL.128 [R1], R4\nIMAD R3, R0, 0x4, R1\nLDL R2, [R3]"))
    assert [access.address for access in local.arrays] == [0x00, 0x20]
    assert (local.spills, local.guessed) == ((), False)


def test_spills_behind_an_array_are_a_guess_and_not_counted() -> None:
    sass = "STL [R1], R4\nSTL [R1+0x80], R5\nIMAD R3, R0, 0x4, R1\nLDL R2, [R3]\nLDL R6, [R1]\nLDL.LU R5, [R1+0x80]"
    code = made(sass=sass)
    local = local_memory_of(code)
    assert [access.address for access in local.spills] == [0x10, 0x50]
    assert local.guessed
    assert resources_of(code, {}).spills is None


def test_what_a_function_saves_for_its_caller_counts_as_spills() -> None:
    kernel = structs.replace(EMPTY, inner=(InnerFunction(name="f", offset=0x20, size_bytes=0x30),))
    local = local_memory_of(
        made(sass="LEA R3, R0, R1, 0x2\nSTL [R3], R4\nSTL [R1], R16\nLDL R16, [R1]\nRET", kernel=kernel)
    )
    assert [access.address for access in local.spills] == [0x20, 0x30]
    assert [access.address for access in local.arrays] == [0x10]


def test_a_kernel_without_local_memory_has_no_spills() -> None:
    spills = resources_of(made(), {}).spills
    assert spills is not None
    assert spills.loads == spills.stores == 0


def test_of_instructions_that_could_not_be_read_nothing_is_said() -> None:
    taken = resources_of(replace(made(kernel=taking(40)), code=(), unread="there is none"), {})
    assert (taken.registers, taken.code_bytes, taken.instructions, taken.spills) == (40, None, None, None)
    coded = made(kernel=structs.replace(taking(40), code=bytes(64)))
    unread = resources_of(replace(coded, code=(), unread="nvdisasm crashed"), {})
    assert (unread.registers, unread.code_bytes, unread.instructions) == (40, 64, None)
    assert (unread.spills, unread.barriers) == (None, None)


@each_row(
    ("sass", "barriers"),
    [
        ("EXIT", 0),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", 1),
        ("BAR.SYNC.DEFER_BLOCKING 0x3, 0x40\nBAR.ARV 0x1, 0x40", 4),
        ("BAR.SYNC.DEFER_BLOCKING R2, R3", None),
        ("BAR.SYNC.DEFER_BLOCKING 010", 11),
        ("BAR.SYNC.DEFER_BLOCKING 0x" + "f" * 99, None),
        ("BAR.RED.POPC.DEFER_BLOCKING 0x2, P0", 3),
    ],
)
def test_barriers_are_counted_by_their_numbers(sass: str, barriers: int | None) -> None:
    assert resources_of(made(sass=sass), {}).barriers == barriers
    assert resources_of(made(sass=sass, kernel=structs.replace(EMPTY, barriers=7)), {}).barriers == 7


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


@needs_cuda_wheels
@each_row("target", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_spills_are_those_that_ptxas_reports(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its marks in the cubin, and without them by the addresses."""
    options = [f"-arch={target}", "-maxrregcount=32", "--ptxas-options=-v"]
    outcome = find_nvrtc()[0].compile(SPILLING, "spills.cu", options)
    assert outcome.cubin is not None
    told = {name: (int(stores), int(loads)) for name, stores, loads in _PROPERTIES.findall(outcome.log)}
    assert told["spills"][0] > 0
    assert told["both"][0] > 0
    expected = {name: told[name] for name in ("spills", "both", "array")} | {"saves": told["_Z6deeperfi"]}
    assert _spilled(target, outcome.cubin) == expected
    monkeypatch.setattr(local_memory, "_marked", lambda _: {})
    assert _spilled(target, outcome.cubin) == expected


def _spilled(target: str, cubin: bytes) -> dict[str, tuple[int, int]]:
    """Return the bytes that each kernel's spills store and load."""
    kernels = read_cubin(cubin).kernels
    tool = disassembler_for(target)
    assert tool is not None
    codes = disassemble(tool, target, [kernel.code for kernel in kernels])
    amounts = {}
    for kernel, code in zip(kernels, codes, strict=True):
        local = local_memory.local_memory(cubin, kernel, code)
        amounts[kernel.mangled] = (_bytes(local, "STL"), _bytes(local, "LDL"))
    return amounts


def _bytes(local: LocalMemory, opcode: str) -> int:
    return sum(width_bytes(access) for access in local.spills if access.name == opcode)


# Rules.


def findings(code: KernelCode, rule: str) -> list[CodeFinding]:
    case = CodeCase(code)
    return [finding for item in rules.RULES if item.id == rule for finding in item.check(case)]


def test_spills_are_told_with_their_instructions() -> None:
    sass = "STL.64 [R1+0x8], R4\nLDL.LU.64 R4, [R1+0x8]\nEXIT"
    (finding,) = findings(made(sass=sass, kernel=taking(255)), "local-memory-spill")
    assert finding.headline == "Local memory: spills, 1 load and 1 store"
    assert finding.why.startswith("All 255 registers available to a thread are in use, so the compiler spills.")
    assert finding.certainty == "from code"
    assert [place.sass for place in finding.places] == ["STL.64 [R1+0x8], R4", "LDL.LU.64 R4, [R1+0x8]"]
    assert {(item.metric, item.value, item.unit) for item in finding.evidence} >= {("STL", 8.0, "B"), ("LDL", 8.0, "B")}
    (capped,) = findings(made(sass=sass, kernel=taking(64)), "local-memory-spill")
    assert capped.action.startswith("Raise the register cap")


@each_row("address", ["[R3]", "[R10]", "[R10+0x4]", "[R1+UR4]"])
def test_an_indexed_array_is_told_where_it_is_indexed(address: str) -> None:
    sass = f"STL.128 [R1], R4\nIMAD R3, R0, 0x4, R1\nLDL R2, {address}"
    (finding,) = findings(made(sass=sass), "local-memory-spill")
    assert finding.headline == "Local memory: an array is indexed at run time, by 1 load"
    assert [place.offset for place in finding.places] == [0x20]


def test_arguments_of_printf_are_no_finding() -> None:
    assert findings(made(sass="STL [R1], R0\nIADD3 R6, P0, R1, c[0x0][0x20], RZ\nEXIT"), "local-memory-spill") == []


def test_guessed_spills_say_that_they_are() -> None:
    sass = "STL [R1], R4\nSTL [R1+0x80], R5\nIMAD R3, R0, 0x4, R1\nLDL R2, [R3]\nLDL R6, [R1]\nLDL.LU R5, [R1+0x80]"
    spilled, indexed = findings(made(sass=sass), "local-memory-spill")
    assert (spilled.certainty, indexed.certainty) == ("guess", "from code")


def test_spills_of_a_function_that_is_called_are_not_put_on_a_register_cap() -> None:
    sass = "CALL.REL.NOINC 0x20\nEXIT\nSTL [R1], R16\nLDL R16, [R1]\nRET.REL.NODEC R20 0x0"
    called = taking(24, inner=(InnerFunction(name="_Z3fibi", offset=0x20, size_bytes=0x30),))
    (finding,) = findings(made(sass=sass, kernel=called), "local-memory-spill")
    assert finding.headline == "Local memory: spills, 1 load and 1 store"
    assert finding.why.startswith("They are in functions that are called")
    assert finding.action.startswith("Inline the functions")
    assert "register cap" not in finding.why + finding.action


SINES = """
extern "C" __global__ void sine(float* a, const int* k) {
  float x = a[threadIdx.x];
  switch (k[threadIdx.x]) {
    case 0: x += 1; break;
    case 1: x = sinf(x); break;
    case 2: x = 1 / x; break;
    case 3: x = logf(x); break;
    case 4: x -= 9; break;
  }
  a[threadIdx.x] = x;
}
extern "C" __global__ void cosine(double* a) { a[threadIdx.x] = cos(a[threadIdx.x]); }
extern "C" __global__ void table(float* a, const int* k) {
  float v[40];
  for (int i = 0; i < 40; i++) v[i] = a[threadIdx.x + i * 40];
  for (int i = 0; i < k[0]; i++) v[(i * 7 + threadIdx.x) % 40] += k[i];
  for (int i = 0; i < 40; i++) a[i] = sinf(v[i]);
}
"""


@needs_cuda_wheels
@each_row("target", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_the_array_of_a_sine_is_not_one_of_the_source(target: str) -> None:
    cases = compiled_cases(SINES, target)
    told = {name: findings(case.known, "local-memory-spill") for name, case in cases.items()}
    assert {name: len(found) for name, found in told.items()} == {"sine": 0, "cosine": 0, "table": 1}
    assert {place.line for place in told["table"][0].places} <= {17, 18}


def test_few_warps_name_the_limiter_and_the_step_as_a_guess() -> None:
    """168 × 32 = 5 376 registers a warp: 3 warps a sub-partition, 12 an SM."""
    (finding,) = findings(made(kernel=taking(168), block=(128, 1, 1)), "low-occupancy")
    assert finding.headline == "Occupancy: 19 % theoretical, limited by registers"
    assert finding.action == "Raise occupancy: at 128 registers per thread one more block fits (25 % occupancy)"
    assert finding.certainty == "guess"
    assert "the code alone does not tell" in finding.why
    assert (finding.evidence[0].value, finding.evidence[0].threshold) == (3.0, 4.0)


def test_occupancy_without_the_dynamic_shared_memory_is_at_most_that() -> None:
    (finding,) = findings(made(sass="STS [R0], R1", kernel=taking(168), block=(128, 1, 1)), "low-occupancy")
    assert finding.headline == "Occupancy: at most 19 % theoretical, limited by registers"


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


def test_a_block_that_does_not_fit_is_told() -> None:
    (finding,) = findings(made(kernel=taking(255), block=(1024, 1, 1)), "low-occupancy")
    assert finding.headline == "Occupancy: no block fits on an SM, by its registers"
    assert finding.why == "Such a launch fails: too many resources requested for launch."
    assert finding.certainty == "from code"


@each_row(
    ("threads", "headline"),
    [
        (48, "Block size: blocks of 48 threads fill 24 of 32 lanes per warp"),
        (1, "Block size: blocks of 1 thread fill 1 of 32 lanes per warp"),
        (1000, None),
        (256, None),
    ],
)
def test_blocks_with_empty_lanes_are_told(threads: int, headline: str | None) -> None:
    """1 000 threads leave 24 of 1 024 lanes empty: 2.3 %, under 3 %."""
    told = findings(made(block=(threads, 1, 1)), "block-size")
    assert [finding.headline for finding in told] == ([headline] if headline else [])


def test_a_block_above_the_launch_bounds_is_told() -> None:
    (finding,) = findings(made(kernel=taking(32, max_threads=128)), "block-size")
    assert finding.headline == "Block size: 256 threads, and the kernel is compiled for 128 at most"


def test_nothing_is_said_of_a_block_that_is_not_known() -> None:
    assert findings(made(kernel=taking(72), block=None), "block-size") == []
    assert findings(made(kernel=taking(72), block=None), "low-occupancy") == []
