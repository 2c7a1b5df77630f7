"""Which profiled launch gives a kernel of a survey its counters: one that computes the same, as far as is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof.model.analyse import Analysis, analyse
from gpuprof.model.recorded import Launch
from gpuprof.model.session import KernelProfile, OperatorFlop
from gpuprof.model.surveyed import joined
from gpuprof.model.torch_ranges import operator_with_shapes
from tests import builders
from tests.readings import session_of
from tests.table import each_row

RECORDED = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-transformer/run/session.json"
INSTRUCTIONS = "smsp__inst_executed.sum"
UP, DOWN = "aten::mm [64, 64]×[64, 256]", "aten::mm [64, 256]×[256, 64]"


def launch(duration_us: float | None, *ranges: str, instructions: float | None = None) -> Launch:
    values = {"gpu__time_duration.sum": duration_us * 1e-6} if duration_us is not None else {}
    counted = {INSTRUCTIONS: instructions} if instructions is not None else {}
    return replace(builders.launch({**values, **counted}), ranges=ranges)


def analysed(*launches: Launch) -> Analysis:
    return analyse([builders.report(*launches)], builders.hardware_of, "1", one_of_a_kind=True)


def counts(profiled: Analysis, surveyed: Analysis) -> dict[str, float | None]:
    """The instructions that each kernel of the survey got, by where it was launched."""
    kernels = joined(profiled, surveyed).session.kernels
    return {" / ".join(kernel.ranges): _instructions(kernel) for kernel in kernels}


def _instructions(kernel: KernelProfile) -> float | None:
    return next((count.value for count in kernel.counts if count.name == "instructions"), None)


def test_a_kernel_has_the_counters_of_its_own_place_whatever_ncu_made_of_its_time() -> None:
    profiled = analysed(launch(30, "a", UP, instructions=1), launch(10, "b", UP, instructions=2))
    surveyed = analysed(launch(10, "a", UP), launch(10, "b", UP))
    assert counts(profiled, surveyed) == {f"a / {UP}": 1, f"b / {UP}": 2}


def test_a_kernel_of_another_module_has_the_counters_of_the_same_operator() -> None:
    profiled = analysed(launch(10, "a", UP, instructions=1), launch(11, "a", DOWN, instructions=2))
    surveyed = analysed(launch(10, "a", UP), launch(10, "b", DOWN), launch(10, "b", UP))
    assert counts(profiled, surveyed) == {f"a / {UP}": 1, f"b / {DOWN}": 2, f"b / {UP}": 1}


@each_row(("took_us", "instructions"), [(121, None), (66, None), (60, 1), (33, 1), (17, 1), (16, None)])
def test_of_an_unknown_operator_only_a_launch_of_similar_time_is_the_same(
    took_us: float, instructions: float | None
) -> None:
    # cuBLAS ran one kernel with one grid for products of depth 2048 and 512 on an H100: 121 and 33 µs.
    for ranges in ((), ("step",), ("aten::mm",)):
        profiled = analysed(launch(took_us, *ranges, instructions=1))
        found = joined(profiled, analysed(launch(32.9, "b", UP))).session.kernels
        assert [_instructions(kernel) for kernel in found] == [instructions]
        assert found[0].duration_s == pytest.approx(32.9e-6)
        (gap,) = (gap for gap in found[0].missing if gap.what.startswith("counters"))
        assert (gap.what == "counters") == (instructions is None)


def test_without_operators_a_launch_in_another_range_is_the_same_only_if_its_time_is_similar() -> None:
    profiled = analysed(launch(10, "warm", instructions=1))
    surveyed = analysed(launch(10, "warm"), launch(12, "small"), launch(100, "large"))
    assert counts(profiled, surveyed) == {"warm": 1, "small": 1, "large": None}


@each_row("operator", [DOWN, "aten::addmm [64, 64]×[64, 256]", "aten::mm [64, 64]×[64, 257]"])
@each_row("took_us", [33, None])
def test_a_launch_of_another_operator_or_of_other_shapes_gives_no_counters(
    operator: str, took_us: float | None
) -> None:
    found = joined(analysed(launch(took_us, "b", operator, instructions=1)), analysed(launch(33, "b", UP)))
    assert _instructions(found.session.kernels[0]) is None
    assert [gap.what for gap in found.session.kernels[0].missing] == ["counters"]


def test_of_several_launches_that_of_the_most_similar_time_is_taken() -> None:
    profiled = analysed(launch(121, "a", instructions=4), launch(30, "c", instructions=1))
    assert counts(profiled, analysed(launch(33, "b", UP))) == {f"b / {UP}": 1}
    assert counts(profiled, analysed(launch(100, "b", UP))) == {f"b / {UP}": 4}


def test_where_no_time_is_known_the_kernel_alone_decides() -> None:
    profiled = analysed(launch(121, "a", instructions=4))
    assert counts(profiled, analysed(launch(None, "b", UP))) == {f"b / {UP}": 4}


SGEMM = "ampere_sgemm_64x64_nn"
FLOP_OF_UP = 2 * 64 * 64 * 256


def product(took_us: float) -> Analysis:
    """A survey of a matrix product, with its FLOP by shapes."""
    found = analysed(replace(launch(took_us, UP), name=SGEMM, demangled=SGEMM))
    asked = OperatorFlop(
        path="fp32", flop=FLOP_OF_UP, flop_per_s=1.0, exact=True, utilisation=(), operand_bytes=None, dram_fraction=None
    )
    kernels = tuple(replace(kernel, operator_flop=asked) for kernel in found.session.kernels)
    return Analysis(replace(found.session, kernels=kernels), found.recorded)


def counted(time_us: float, flop: float, *ranges: str) -> Launch:
    """A launch with that many FLOP in FP32, a third each from additions, multiplications and both at once."""
    times = {"gpu__time_duration.sum": time_us * 1e-6, INSTRUCTIONS: flop}
    values = {builders.ADD.format(operation): 0.0 for operation in ("dadd", "dmul", "dfma", "hadd", "hmul", "hfma")}
    values |= {builders.ADD.format(operation): flop / 3 for operation in ("fadd", "fmul")}
    known = builders.launch({**times, **values, builders.ADD.format("ffma"): flop / 6}, name=SGEMM)
    return replace(known, ranges=ranges)


def test_counters_that_contradict_the_shapes_are_refused_and_the_time_is_kept() -> None:
    surveyed = product(33)
    for profiled in (counted(33, 3 * FLOP_OF_UP), counted(33, FLOP_OF_UP / 2), counted(33, FLOP_OF_UP / 2, "a", UP)):
        (kernel,) = joined(analysed(profiled), surveyed).session.kernels
        assert [gap.what for gap in kernel.missing] == ["counters"] and UP in kernel.missing[0].why
        assert kernel.duration_s == pytest.approx(33e-6) and not kernel.work and not kernel.counts
        assert not kernel.roofline and not kernel.throughput and not kernel.stalls
    (kernel,) = joined(analysed(counted(33, FLOP_OF_UP)), surveyed).session.kernels
    assert kernel.counts and kernel.work


def test_a_launch_that_contradicts_the_shapes_leaves_room_for_another() -> None:
    profiled = analysed(counted(33, 3 * FLOP_OF_UP), counted(50, FLOP_OF_UP))
    (kernel,) = joined(profiled, product(33)).session.kernels
    assert _instructions(kernel) == FLOP_OF_UP


def test_operators_read_the_same_in_ranges_of_ncu_and_in_a_trace_of_torch() -> None:
    """On an H100. Kernels with counters of another module keep the ranges that ncu saw."""
    kernels = session_of(RECORDED).kernels
    pairs = [
        (gap.why.removeprefix("they are those of a launch in ").split(" / "), kernel.ranges)
        for kernel in kernels
        for gap in kernel.missing
        if gap.what == "counters of this range"
    ]
    operators = [(operator_with_shapes(ncu), operator_with_shapes(torch)) for ncu, torch in pairs]
    assert len(operators) == 35
    known = [(ncu, torch) for ncu, torch in operators if ncu and torch]
    assert len(known) == 34 and all(ncu == torch for ncu, torch in known)
