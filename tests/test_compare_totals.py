"""Figures of whole runs on two sides, and sides of several runs, ranks and partial profiles."""

from __future__ import annotations

import pytest

from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import QuantityChange
from gpuprof.comparison.sides import Side, side_of
from gpuprof.comparison.timing.totals import totals_of
from gpuprof.model.field_types import JudgedPart
from gpuprof.model.groups import spread
from gpuprof.model.session import DeviceTimeline, Exclusion, Gaps, RunTotals, StepTimes, Timeline
from tests.compare_builders import kernel, run, side


def totals(base: Side, new: Side) -> dict[str, QuantityChange]:
    return {change.name: change for change in totals_of(base, new)}


def timeline(span_s: float, idle_s: float | None, *steps_s: float, judged: JudgedPart = "all") -> Timeline:
    gaps = Gaps(
        count=1, total_s=idle_s, median_s=idle_s, longest_s=idle_s, short_s=0.0, long_s=idle_s, unsure_s=0.0
    ) if idle_s is not None else None  # fmt: skip
    device = DeviceTimeline(
        source=0, ordinal=0, device=0, span_s=span_s, busy_s=span_s - (idle_s or 0.0), kernel_s=0.0, gaps=gaps,
        copies=(), communication=None, untimed=0,
        judged=judged,
    )  # fmt: skip
    times = spread(steps_s)
    loop = () if times is None else (
        StepTimes(
            source=0, name="step", count=len(steps_s), threads=1, duration_percentiles_s=times, per_s=None, loop=True
        ),
    )  # fmt: skip
    return Timeline(
        devices=(device,), steps=loop, waits=(), rank=None, ranks=None, peak_memory_bytes=None, source_ranks=(None,)
    )


def test_gpu_time_and_launches_are_those_of_a_run() -> None:
    base = side_of([run(kernel("a", [1e-3, 1e-3])), run(kernel("a", [3e-3, 3e-3]))])
    change = totals(base, side(kernel("a", [2e-3, 2e-3, 2e-3])))
    assert change["gpu-time"].base == pytest.approx(4e-3) and change["gpu-time"].new == pytest.approx(6e-3)
    assert change["gpu-time"].ratio == pytest.approx(1.5)
    assert (change["launches"].base, change["launches"].new) == (2, 3)


def test_another_clock_of_the_sm_makes_no_run_slower() -> None:
    """At 0.8 of the clock a run takes 25 % longer at most; what takes 40 % longer was changed."""

    def verdict(factor: float) -> str:
        base, new = (
            [run(kernel("a", [longer * (1e-3 + 1e-6 * noise)], clocks_hz=[clock])) for noise in range(6)]
            for longer, clock in ((1.0, 1e9), (factor, 0.8e9))
        )
        return compare(base, new, "0").comparison.total[0].verdict

    assert [verdict(factor) for factor in (1.0, 1.25, 1.4)] == ["unclear", "unclear", "slower"]


def test_timelines_tell_span_idle_time_and_the_median_step() -> None:
    base = side(kernel(), timeline=timeline(2.0, 0.5, 0.1, 0.2, 0.9))
    new = side(kernel(), timeline=timeline(1.0, None))
    change = totals(base, new)
    assert (change["span"].base, change["span"].new, change["span"].ratio) == (2.0, 1.0, 0.5)
    assert (change["idle"].base, change["idle"].new, change["idle"].ratio) == (0.5, None, None)
    assert (change["step"].base, change["step"].new) == (0.2, None)
    assert "peak-memory" not in change


def test_times_of_different_parts_of_traces_are_not_compared() -> None:
    base = run(kernel(), timeline=timeline(4.4, 4.3, 0.1, 0.2, 0.3))
    new = run(kernel(), timeline=timeline(0.6, 0.5, 0.1, 0.2, 0.3, judged="steps"))
    for other, told in ((new, [("all",), ("steps",)]), (base, [])):
        comparison = compare([base], [other], "0").comparison
        names = [change.name for change in comparison.total]
        assert [name for name in names if name in ("span", "busy", "idle", "copies")] == (
            [] if told else ["span", "busy", "idle", "copies"]
        )
        assert {"gpu-time", "launches", "step"} <= {*names}
        conditions = [each for each in comparison.conditions if each.name == "judged-part"]
        assert [value for each in conditions for value in (each.base, each.new)] == told
        assert comparison.alike


def test_kernels_are_ranked_by_their_effect_on_the_run() -> None:
    base = run(kernel("a", [1e-3]), kernel("b", [1e-2]), kernel("c", [5e-3]))
    new = run(kernel("a", [3e-3]), kernel("b", [1e-2]), kernel("d", [1e-3]))
    kernels = compare([base], [new], "0").comparison.kernels
    assert [item.label for item in kernels] == ["c", "a", "d", "b"] and [item.id for item in kernels] == [0, 1, 2, 3]
    assert kernels[1].effect_s == pytest.approx(2e-3) and kernels[1].effect == pytest.approx(0.125)


def test_what_was_not_profiled_or_excluded_counts_in_the_time_of_the_run() -> None:
    known = RunTotals(
        kernels=9, launches=90, timed_launches=90, timed_shapes=9, time_s=0.5, main_kernels=1, main_time_s=0.4
    )
    change = totals(side(kernel("a", [1e-3]), run=known), side(kernel("a", [1e-3])))
    assert change["gpu-time"].base == 0.5 and change["launches"].base == 90
    left_out = Exclusion(patterns=("b",), kernels=1, launches=4, untimed=0, time_s=0.25, time_share=None)
    assert side(kernel("a", [0.5]), excluded=left_out).total_s == 0.75


def test_ranks_count_as_runs_and_their_time_adds_up() -> None:
    ranks = run(kernel("a", [1e-3], rank=0), kernel("a", [3e-3], rank=1))
    both = side_of([ranks])
    item = both.kernels[0]
    assert [(times.run, times.durations_s) for times in item.times] == [(0, (1e-3,)), (1, (3e-3,))]
    assert item.launches == 2 and item.total_s == pytest.approx(4e-3) == both.total_s
    twice = side_of([ranks, ranks]).kernels[0]
    assert [times.run for times in twice.times] == [0, 1, 2, 3] and twice.runs == {0, 1} and twice.launches == 2
    facts = compare([run(kernel("a"))], [ranks], "0").comparison.facts
    assert [(fact.kind, fact.side) for fact in facts] == [("lanes", "new")]
    some = [run(kernel("a")), run(kernel("a"), kernel("b"))]
    facts = compare(some, some, "0").comparison.facts
    assert [(fact.kind, fact.side, fact.numbers) for fact in facts] == [
        ("some-runs", "base", (1, 2)), ("some-runs", "new", (1, 2))
    ]  # fmt: skip
