"""Which profiled launch gives a kernel of a survey its counters: the same place, else the same operator and time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuprof.model.analyse import Analysis, analyse
from gpuprof.model.recorded import Launch
from gpuprof.model.session import KernelProfile
from gpuprof.model.surveyed import joined
from tests import builders
from tests.table import each_row

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
def test_of_another_operator_only_what_takes_about_as_long_is_the_same(
    took_us: float, instructions: float | None
) -> None:
    # cuBLAS ran one kernel with one grid for products of depth 2048 and 512 on an H100: 121 and 33 µs.
    profiled = analysed(launch(took_us, "a", DOWN, instructions=1))
    found = joined(profiled, analysed(launch(32.9, "b", UP))).session.kernels
    assert [_instructions(kernel) for kernel in found] == [instructions]
    assert found[0].duration_s == pytest.approx(32.9e-6)
    (gap,) = (gap for gap in found[0].missing if gap.what.startswith("counters"))
    assert (gap.what == "counters") == (instructions is None)


def test_of_several_launches_that_of_the_most_similar_time_is_taken() -> None:
    other = "aten::bmm [2, 4, 4]×[2, 4, 4]"
    profiled = analysed(launch(121, "a", DOWN, instructions=4), launch(30, "c", UP, instructions=1))
    assert counts(profiled, analysed(launch(33, "b", other))) == {f"b / {other}": 1}
    assert counts(profiled, analysed(launch(100, "b", other))) == {f"b / {other}": 4}


def test_where_no_time_is_known_the_kernel_alone_decides() -> None:
    profiled = analysed(launch(121, "a", DOWN, instructions=4))
    assert counts(profiled, analysed(launch(None, "b", UP))) == {f"b / {UP}": 4}
