"""Equal launches as one kernel: analysed at once they give what grouping a whole session gives."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuprof.model.analyse import analyse
from gpuprof.model.groups import LaunchKind, Resources, alike, speaker
from gpuprof.model.recorded import Launch
from gpuprof.model.run_totals import run_of
from gpuprof.model.session import KernelProfile, Session
from tests import builders
from tests.table import each_row
from tests.worded import diagnose, grouped


def launches() -> list[Launch]:
    """Seven launches: five of one kernel in two grids, one of another, one of unknown grid."""
    times = (3e-3, 1e-3, 2e-3, 5e-3, 4e-3)
    same = [builders.launch({"gpu__time_duration.sum": time}, name="a") for time in times]
    wide = [replace(launch, grid=(7, 1, 1)) for launch in same[3:]]
    other = builders.launch({"gpu__time_duration.sum": 9e-3}, name="b")
    return [*same[:3], *wide, other, replace(other, grid=None)]


def by_either_way() -> tuple[Session, Session]:
    whole = diagnose(analyse([builders.report(*launches())], builders.hardware_of, "1"))
    return grouped(whole), diagnose(
        analyse([builders.report(*launches())], builders.hardware_of, "1", one_of_a_kind=True)
    )


def summary(kernel: KernelProfile) -> tuple[object, ...]:
    gains = [(finding.rule, finding.gain_kernel) for finding in kernel.findings]
    times = kernel.duration_s, kernel.duration_percentiles_s, kernel.launch_times
    return kernel.id, kernel.label, kernel.launches, times, kernel.counts, kernel.lines, gains


def test_the_launch_of_median_duration_speaks_for_its_kind() -> None:
    _, at_once = by_either_way()
    # 3, 1 and 2 ms: launch 2, the median; 5 and 4 ms are of one size: of two the shorter.
    assert [(kernel.id, kernel.launches, kernel.duration_s) for kernel in at_once.kernels] == [
        (2, 3, 2e-3),
        (4, 2, 4e-3),
        (5, 1, 9e-3),
        (6, 1, 9e-3),
    ]
    assert at_once.kernels[0].time_total_s == pytest.approx(6e-3)
    assert at_once.kernels[0].time_share == pytest.approx(6 / 33)


def test_both_ways_give_the_same_groups() -> None:
    later, at_once = by_either_way()
    assert list(map(summary, at_once.kernels)) == list(map(summary, later.kernels))
    assert [item.findings for item in at_once.recommendations] == [item.findings for item in later.recommendations]
    assert at_once.verdict == later.verdict


@each_row(("durations", "place"), [
    ([None, None], 0), ([None, 1.0], 1), ([0.0, 0.0], 0),
    ([0.555, 2.08], 1),  # four fifths of the time are the second's
    ([1.05, 1.0], 1),  # about as long: the median, of two the shorter
    ([1.0, 1.2], 0),
    ([1.2, 1.0], 1),  # a first launch that was cold
    ([*[1.0] * 999, 10.0], 499),  # the long one takes a hundredth of the time
    ([*[1.0] * 9, 10.0], 9),  # and here more than half of it
    ([*[1e-6] * 999, 1.0], 999),
    ([*[3e-6] * 999, 4e-3], 499),  # something has held it up: one of many, and 57 % of the time
    ([*[1.0] * 99, 200.0], 49),
    ([3.0, 1.0, 2.0], 2),  # scattered: the median
    ([*[1.0] * 6, *[4.0] * 3], 7),  # two sizes: the one with most time
])  # fmt: skip
def test_what_speaks_for_launches_is_the_median_of_the_size_that_takes_most_of_the_time(
    durations: list[float | None], place: int
) -> None:
    assert speaker(durations) == place


def test_what_is_not_known_sets_no_launch_apart() -> None:
    def groups(*resources: tuple[int | None, int | None]) -> list[list[int]]:
        return alike((LaunchKind("k", Resources(*own)), place) for place, own in enumerate(resources))

    assert groups((50, 0), (80, 0), (50, 0)) == [[0, 2], [1]]
    assert groups((50, 0), (50, 1024)) == [[0], [1]]
    assert groups((None, None), (50, 0), (50, None)) == [[0, 1, 2]]
    assert groups((None, None), (50, 0), (80, 0), (80, None)) == [[0], [1], [2, 3]]
    assert groups((50, None), (None, 0), (None, None)) == [[0], [1], [2]]
    assert alike([(LaunchKind("k", Resources(1, 1)), 0), (LaunchKind("l", Resources(1, None)), 1)]) == [[0], [1]]


def test_products_of_other_shapes_are_kernels_of_their_own_however_similar_their_times() -> None:
    operators = ("aten::mm [2, 4]×[4, 3]", "aten::mm [2, 5]×[5, 3]", "aten::addmm [2, 4]×[4, 3]")
    every = [
        replace(builders.launch({"gpu__time_duration.sum": 1e-3 + 1e-6 * number}, name="sgemm"), ranges=(operator,))
        for number, operator in enumerate(operators * 2)
    ]
    for at_once in (False, True):
        whole = analyse([builders.report(*every)], builders.hardware_of, "1", one_of_a_kind=at_once)
        kernels = grouped(diagnose(whole)).kernels
        assert [(kernel.ranges, kernel.launches) for kernel in kernels] == [((text,), 2) for text in operators]


def test_builds_are_kernels_of_their_own_in_either_way() -> None:
    """Of one name, grid and block: 50 registers in 2 s, 80 in 0.5 s, the second a second time in 0.49 s."""
    registers = "launch__registers_per_thread"
    shared = {f"launch__shared_mem_per_block_{what}": 0.0 for what in ("static", "dynamic")}
    times = ((50.0, 2.0), (80.0, 0.5), (80.0, 0.49))
    every = [
        builders.launch({"gpu__time_duration.sum": time, registers: number, **shared}, name="render")
        for number, time in times
    ]
    whole = diagnose(analyse([builders.report(*every)], builders.hardware_of, "1"))
    at_once = diagnose(analyse([builders.report(*every)], builders.hardware_of, "1", one_of_a_kind=True))
    for session in (grouped(whole), at_once):
        assert [(kernel.id, kernel.launches, kernel.registers_per_thread) for kernel in session.kernels] == [
            (0, 1, 50), (2, 2, 80)
        ]  # fmt: skip
        assert run_of(session).timed_shapes == 2
    assert list(map(summary, at_once.kernels)) == list(map(summary, grouped(whole).kernels))
