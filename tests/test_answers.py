"""The counters of a second run are those of the same work in the first, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from gpuprof.model.answers import with_answers
from gpuprof.model.recorded import Launch, Report
from tests import builders
from tests.kernels import Program
from tests.table import each_row

LIMIT, ANSWER, TIME = "sm__cycles_active.avg", "smsp__inst_executed.sum", "gpu__time_duration.sum"
UP, DOWN = "aten::mm [64, 64]×[64, 256]", "aten::mm [64, 256]×[256, 64]"
SAMPLES: Mapping[str | int, float] = {16: 3.0, 32: 5.0}


def limited(*ranges: str, took_us: float | None = 10, value: float = 1) -> Launch:
    """A launch of the first run."""
    return launch(took_us, ranges, {LIMIT: value})


def answered(*ranges: str, took_us: float | None = 10, value: float = 2) -> Launch:
    """A launch of the second run."""
    return launch(took_us, ranges, {ANSWER: value})


def launch(took_us: float | None, ranges: tuple[str, ...], values: Mapping[str, float]) -> Launch:
    times = {TIME: took_us * 1e-6} if took_us is not None else {}
    return replace(builders.launch({**times, **values}), ranges=ranges)


def report(*launches: Launch, rank: int | None = None, names: frozenset[str] | None = None) -> Report:
    return replace(builders.report(*launches), rank=rank, names=names)


def values(reports: tuple[Report, ...]) -> list[list[tuple[float | None, float | None]]]:
    """What the launches of each report have of both runs."""
    return [[(launch.metrics.number(LIMIT), launch.metrics.number(ANSWER)) for launch in report] for report in reports]


def test_a_launch_has_the_counters_of_both_runs_and_the_time_of_the_first() -> None:
    (both, rest) = with_answers([report(limited("a", UP))], [report(answered("a", UP, took_us=14))])
    (one,) = both
    assert (one.metrics.number(LIMIT), one.metrics.number(ANSWER)) == (1, 2)
    assert one.metrics.number(TIME) == pytest.approx(10e-6) and one.metrics.digits(TIME) is None
    assert one.metrics.names() == (TIME, LIMIT, ANSWER) and list(rest) == []
    assert one.metrics.has(ANSWER) and not one.metrics.has("none") and one.metrics.get("none") is None
    assert not one.metrics.is_strange(ANSWER) and one.metrics.instances("none") is None


def test_instances_and_details_are_those_of_the_second_run() -> None:
    program = Program(machine=b"code")
    second = replace(answered(UP), metrics=builders.metrics({ANSWER: 2.0}, {ANSWER: SAMPLES}), details=program)
    ((one,), _) = with_answers([report(limited(UP))], [report(second)])
    assert one.metrics.instances(ANSWER) == SAMPLES and one.details == program


@each_row(
    ("first", "second", "answer"),
    [
        # The same operator, shapes and place; the same in another module; others.
        (("a", UP), ("a", UP), 2),
        (("a", UP), ("b", UP), 2),
        (("a", UP), ("a", DOWN), None),
        (("a", UP), ("a",), None),
        (("a",), ("a", UP), 2),
        ((), ("a", UP), 2),
        (("a",), ("b",), 2),
        ((), (), 2),
    ],
)
def test_work_is_the_same_by_its_operator_and_shapes(
    first: tuple[str, ...], second: tuple[str, ...], answer: float | None
) -> None:
    (both, rest) = values(with_answers([report(limited(*first))], [report(answered(*second))]))
    assert both == [(1, answer)] and rest == ([(None, 2)] if answer is None else [])


@each_row(("took_us", "answer"), [(13, 2), (7.7, 2), (13.1, None), (7.6, None), (None, 2)])
@each_row("ranges", [(), ("a",), ("a", "aten::mm")])
def test_where_no_shapes_are_known_work_is_the_same_if_it_takes_about_as_long(
    took_us: float | None, answer: float | None, ranges: tuple[str, ...]
) -> None:
    reports = with_answers([report(limited(*ranges))], [report(answered(*ranges, took_us=took_us))])
    assert values(reports)[0] == [(1, answer)]
    reports = with_answers([report(limited(*ranges, UP))], [report(answered(*ranges, UP, took_us=99))])
    assert values(reports)[0] == [(1, 2)], "with shapes it is the same however long it takes"


def test_of_several_launches_of_the_same_work_that_of_the_nearest_time_answers() -> None:
    first = report(*(limited("a", UP, took_us=time) for time in (10, 20)))
    second = report(*(answered("a", UP, took_us=time, value=time) for time in (11, 19)))
    assert values(with_answers([first], [second])) == [[(1, 11), (1, 19)], []]
    closer = report(answered("b", UP, took_us=10, value=7), answered("a", UP, took_us=30, value=8))
    assert values(with_answers([first], [closer]))[0] == [(1, 8), (1, 8)], "the same place comes first"


def test_another_kernel_grid_or_block_is_other_work() -> None:
    for other in (
        replace(answered(UP), demangled="other"),
        replace(answered(UP), grid=(65, 1, 1)),
        replace(answered(UP), block=(128, 1, 1)),
    ):
        assert values(with_answers([report(limited(UP))], [report(other)])) == [[(1, None)], [(None, 2)]]


def test_what_answers_for_no_launch_of_the_first_run_stays_a_launch_of_its_own() -> None:
    reports = with_answers([report(limited("a", UP))], [report(answered("a", UP), answered("a", DOWN, value=3))])
    assert values(reports) == [[(1, 2)], [(None, 3)]]


def test_surplus_launches_of_answered_work_are_no_kernels_of_their_own() -> None:
    # They have no limits: shown in the place of one that has, they would hide these.
    second = [answered("a", UP, took_us=time) for time in (10, 11, 12)]
    assert values(with_answers([report(limited("a", UP))], [report(*second, answered("b", UP))])) == [[(1, 2)], []]
    bare = [answered(took_us=time) for time in (10, 11, 20)]
    assert values(with_answers([report(limited())], [report(*bare)])) == [[(1, 2)], [(None, 2)]]


def test_ranks_are_apart() -> None:
    first = [report(limited(UP, value=rank + 1), rank=rank) for rank in (0, 1)]
    second = [report(answered(UP, value=10 * (rank + 1)), rank=rank) for rank in (1, 0)]
    assert values(with_answers(first, second))[:2] == [[(1, 10)], [(2, 20)]]
    alone = values(with_answers(first, [report(answered(UP), rank=1)]))
    assert alone == [[(1, None)], [(2, 2)], []]


def test_metrics_that_a_report_can_hold_are_those_of_both() -> None:
    first, second = report(limited(UP), names=frozenset({LIMIT})), report(answered(UP), names=frozenset({ANSWER}))
    assert with_answers([first], [second])[0].names == frozenset({LIMIT, ANSWER})
    assert with_answers([first], [report(answered(UP))])[0].names is None


def test_without_a_second_run_the_first_stays_as_it_is() -> None:
    first = report(limited("a", UP), limited("b", UP))
    assert with_answers([first], ()) == (first,)
    assert values(with_answers([], [report(answered(UP))])) == [[(None, 2)]]
