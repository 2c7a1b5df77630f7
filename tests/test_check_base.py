"""`gpuprof check --base`: which kernels of two builds belong together, and what differs between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import gpuprof
from gpuprof.review.build_changes import BuildPair, build_change, build_pairs
from gpuprof.review.contract import BuildChange, OpcodeCount, Review, ReviewedKernel
from tests import reviews as made
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row


def kernel(number: int, name: str, target: str = "sm_90", **opcodes: int) -> ReviewedKernel:
    counts = tuple(OpcodeCount(opcode, count) for opcode, count in opcodes.items())
    return made.kernel(number, name=name, mangled=name, label=name, target=target, opcodes=counts)


def matches(base: list[ReviewedKernel], new: list[ReviewedKernel]) -> list[tuple[str, int | None, int | None]]:
    found: list[tuple[str, int | None, int | None]] = []
    for pair in build_pairs(base, new):
        ids = [side.id if side is not None else None for side in (pair.base, pair.new)]
        found.append((pair.match, ids[0], ids[1]))
    return found


# Which kernels belong together


@each_row(
    ("old", "new", "match"),
    [
        ("gemm(float*)", "gemm(float*)", "exact"),
        ("_Z4gemm_INTERNAL_0a1b2c3d_4_a_cu", "_Z4gemm_INTERNAL_99887766_4_a_cu", "renamed"),
        ("triton_poi_fused_add_3", "triton_poi_fused_add_7", "renamed"),
        ("void gemm<64>(float*)", "void gemm<128>(float*)", "similar"),
        ("gemm_v1(float*)", "gemm_v2(float*)", "similar"),
    ],
)
def test_a_kernel_is_found_by_its_name_or_else_by_its_instructions(old: str, new: str, match: str) -> None:
    assert matches([kernel(3, old, FFMA=8, LDG=2)], [kernel(5, new, FFMA=9, LDG=2)]) == [(match, 3, 5)]


def test_other_instructions_and_other_architectures_are_other_kernels() -> None:
    base = [kernel(0, "a", FFMA=8), kernel(1, "b", "sm_80", FFMA=8)]
    assert matches(base, [kernel(0, "c", MUFU=8), kernel(1, "b", "sm_90", IMAD=8)]) == [
        ("new", None, 0), ("new", None, 1), ("gone", 0, None), ("gone", 1, None),
    ]  # fmt: skip


def test_the_most_alike_of_several_kernels_are_paired_and_each_once() -> None:
    base = [kernel(0, "gemm<1>", FFMA=64, LDG=4), kernel(1, "gemm<2>", FFMA=128, LDG=4)]
    new = [kernel(0, "gemm<3>", FFMA=130, LDG=4), kernel(1, "gemm<4>", FFMA=66, LDG=4)]
    assert matches(base, new) == [("similar", 1, 0), ("similar", 0, 1)]


def test_launches_of_a_name_are_paired_in_their_order() -> None:
    launches = [replace(kernel(number, "gemm"), launch=number) for number in range(3)]
    assert matches(launches[:2], launches) == [("exact", 0, 0), ("exact", 1, 1), ("new", None, 2)]


# What differs


def change(base: ReviewedKernel, new: ReviewedKernel) -> BuildChange:
    return build_change(BuildPair("exact", base, new))


def test_values_and_findings_that_differ_are_listed_with_both_sides() -> None:
    base = made.kernel(0, made.finding("x"), accesses=(made.access(sectors_per_request=4.0),))
    new = replace(
        base, findings=(made.finding("y"),), resources=made.resources(registers=80, spills=None),
        accesses=(made.access(),), occupancy=made.occupancy(fraction=0.25),
        loops=(made.loop(0, instructions=20), made.loop(1)),
    )  # fmt: skip
    made_change = change(base, new)
    assert [(value.name, value.base, value.new) for value in made_change.values] == [
        ("registers", 72, 80), ("spilled-bytes", 28, None), ("occupancy", 0.375, 0.25),
        ("loop-instructions", 16, 20), ("sectors-per-request", 4.0, 32.0),
    ]  # fmt: skip
    assert [finding.rule for finding in made_change.came] == ["y"]
    assert [finding.rule for finding in made_change.went] == ["x"]
    same = change(base, base)
    assert (same.values, same.came, same.went) == ((), (), ())


def test_a_kernel_of_one_side_has_its_findings_and_no_values() -> None:
    new = made.kernel(0, made.finding())
    came, gone = build_change(BuildPair("new", None, new)), build_change(BuildPair("gone", new, None))
    assert (came.values, came.base, came.came, came.went) == ((), None, new.findings, ())
    assert (gone.values, gone.kernel, gone.came, gone.went) == ((), None, (), new.findings)


# Compiled code

COPY = """
__global__ void copy(float *out, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}
"""
GATHER = """
__global__ void gather(float *out, const float *in, const float *other) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = in[i * 16];
    sum += other[i];
    out[i] = sum;
}
"""
SUM = """
__global__ void sum(float *out, const float *in) {
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < 4096; ++i) sum += in[i * 4096 + threadIdx.x];
    out[threadIdx.x] = sum;
}
"""
HEAVY = """
__global__ void heavy(float *out, const float *in) {
    float v[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = in[i * 256 + threadIdx.x];
#pragma unroll 1
    for (int k = 0; k < 100; ++k) {
#pragma unroll
        for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 17) % 64] + v[63 - i];
    }
#pragma unroll
    for (int i = 0; i < 64; ++i) out[i * 256 + threadIdx.x] = v[i];
}
"""


def compared(folder: Path, base: str, new: str, *limits: str, **options: Any) -> Review:
    for name, text in (("old.cu", base), ("new.cu", new)):
        (folder / name).write_text(text)
    return gpuprof.check(
        folder / "new.cu", arch="sm_90", block=256, base=[folder / "old.cu"], fail_on=limits, **options
    )


def outcome(review: Review) -> tuple[int, list[str]]:
    assert review.gate is not None
    return review.gate.exit_code, [f"{check.quantity} {check.word}" for check in review.gate.checks]


@needs_cuda_wheels
@pytest.mark.slow
@each_row(
    ("old", "new", "results"),
    [
        (COPY, f"// a line\n\n{COPY}", []),
        (COPY, COPY.replace("in[i]", "in[i * 4]"), ["sectors regression", "uncoalesced-global regression"]),
        (COPY.replace("in[i]", "in[i * 4]"), COPY, []),
        (GATHER, GATHER.replace("float sum", "float sum = out[i];\n    sum").replace("sum = in", "sum += in"), []),
        (SUM, SUM.replace("unroll 4", "unroll 8"), []),
        (COPY, COPY.replace("void copy", "void copied"), []),
        (SUM, SUM.replace("* 4096 +", "+ 4096 *"), ["sectors regression", "uncoalesced-global regression"]),
    ],
)
def test_a_planted_stride_fails_and_moved_unrolled_and_renamed_code_does_not(
    tmp_path: Path, old: str, new: str, results: list[str]
) -> None:
    review = compared(tmp_path, old, new, "sectors", "conflicts", "spills", "uncoalesced-global:high")
    assert outcome(review) == (6 if results else 0, results)
    assert review.changes is not None
    assert [item.match for item in review.changes.kernels] == ["similar" if "copied" in new else "exact"]


@needs_cuda_wheels
@pytest.mark.slow
def test_a_limit_of_registers_for_the_compiler_is_a_spill(tmp_path: Path) -> None:
    tight = HEAVY.replace("void heavy", "void __launch_bounds__(1024, 2) heavy")
    code, results = outcome(compared(tmp_path, HEAVY, tight, "registers", "spills"))
    assert (code, results) == (6, ["spills regression"])
    assert outcome(compared(tmp_path, tight, HEAVY, "spills")) == (0, [])


@needs_cuda_wheels
def test_flags_of_compilers_are_for_sources_alone(tmp_path: Path) -> None:
    (tmp_path / "new.cu").write_text(COPY)
    cubin = Path(__file__).parent / "data" / "triton-cache" / "ATFQPPD77QHF56TZ52EXABJYNL4YHSRD7DT7JZAF4WDDEYY6H43A"
    review = gpuprof.check(
        tmp_path / "new.cu", arch="sm_90", defines=["N=4"], base=[cubin / "row_sums.cubin"], fail_on=["registers"]
    )
    assert review.changes is not None
    assert {item.match for item in review.changes.kernels} == {"new"} | {"gone"}
