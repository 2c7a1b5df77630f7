"""The launches of a group one by one: all of few, a thousand of many, and those of a survey where there was one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.model.analyse import Analysis, analyse
from gpuprof.model.launch_times import MOST, launch_times, merged_times
from gpuprof.model.recorded import Launch
from gpuprof.model.session import DurationSpread, LaunchTimes
from gpuprof.model.surveyed import joined
from tests import builders, hand_made
from tests.readings import session_of
from tests.table import each_row
from tests.worded import grouped

TRACE = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-transformer/run/survey.pt.trace.json.gz"
DURATION, CLOCK = "gpu__time_duration.sum", "sm__cycles_elapsed.avg.per_second"


def timed(seconds: float | None, clock_hz: float | None = 1e9) -> Launch:
    values = {DURATION: seconds, CLOCK: clock_hz}
    return builders.launch({name: value for name, value in values.items() if value is not None})


def analysed(launches: Sequence[Launch], *, at_once: bool = True) -> Analysis:
    return analyse([builders.report(*launches)], builders.hardware_of, "1", one_of_a_kind=at_once)


def either_way(*launches: Launch) -> LaunchTimes | None:
    """The launch times of a group; analysed at once they are what grouping launches later gives."""
    (at_once,), (later,) = (
        analysed(launches).session.kernels, grouped(analysed(launches, at_once=False).session).kernels
    )  # fmt: skip
    assert at_once.launch_times == later.launch_times
    return at_once.launch_times


def no_clock(_: int) -> None:
    return None


def times_of(durations_s: tuple[float, ...], sm_clocks_hz: tuple[float, ...] = (), dropped: int = 0) -> LaunchTimes:
    return LaunchTimes(durations_s=durations_s, sm_clocks_hz=sm_clocks_hz, dropped=dropped)


@each_row(
    ("launches", "times"),
    [
        ([(3.0, 1e9), (1.0, 2e9), (2.0, 1e9)], times_of((3.0, 1.0, 2.0), (1e9, 2e9, 1e9))),
        ([(1.0, 1e9)], None),
        # An unknown clock leaves the clocks out; launches without a duration are neither kept nor dropped.
        ([(3.0, 1e9), (1.0, None)], times_of((3.0, 1.0))),
        ([(3.0, 1e9), (None, 1e9), (1.0, 1e9)], times_of((3.0, 1.0), (1e9, 1e9))),
        ([(None, 1e9), (None, 1e9)], None),
    ],
)
def test_launches_come_in_their_order_with_their_clocks(
    launches: list[tuple[float | None, float | None]], times: LaunchTimes | None
) -> None:
    assert either_way(*(timed(*launch) for launch in launches)) == times


@given(st.integers(1, 5 * MOST))
def test_of_any_number_of_launches_the_kept_ones_are_spread_evenly(count: int) -> None:
    times = launch_times([float(place) for place in range(count)], no_clock)
    assert times is not None
    kept = [int(duration) for duration in times.durations_s]
    assert len(kept) == min(count, MOST) and times.dropped == count - len(kept)
    # One of each thousandth of the launches.
    assert all(span * count // len(kept) <= place < (span + 1) * count // len(kept) for span, place in enumerate(kept))


def test_groups_that_are_put_together_keep_what_both_know() -> None:
    single = hand_made.kernel(0, duration_s=1.0, sm_clock_hz=2e9, duration_source="counters")
    group = replace(
        single, launches=5, launch_times=LaunchTimes(durations_s=(2.0, 3.0), sm_clocks_hz=(1e9, 1e9), dropped=3)
    )
    assert merged_times([single, group]) == times_of((1.0, 2.0, 3.0), (2e9, 1e9, 1e9), 3)
    # A group of an old session counts as dropped; a survey's time has no profiler clock.
    spread = DurationSpread(min=1.0, p50=1.0, p95=1.0, p99=1.0, max=1.0, count=7)
    old = replace(single, launches=9, duration_percentiles_s=spread)
    assert merged_times([single, old]) == times_of((1.0,), (2e9,), 7)
    surveyed = replace(single, duration_source="survey")
    assert merged_times([surveyed, surveyed]) == times_of((1.0, 1.0))


def test_a_surveyed_kernel_has_the_launches_of_the_survey_and_the_counts_of_the_profile() -> None:
    inst = "smsp__inst_executed.sum"
    profiled = analysed([builders.launch({DURATION: 9.0, CLOCK: 1e9, inst: 5.0})])
    survey = analysed([timed(2.0, None), timed(1.0, None)])
    (kernel,) = joined(profiled, survey).session.kernels
    assert kernel.launch_times == LaunchTimes(durations_s=(2.0, 1.0))
    assert [(count.name, count.value) for count in kernel.counts] == [("instructions", 5.0)]


def test_a_survey_without_times_does_not_lend_the_profiler_s() -> None:
    profiled = analysed([timed(9.0), timed(8.0)])
    (kernel,) = joined(profiled, analysed([timed(None), timed(None), timed(None)])).session.kernels
    assert kernel.launches == 3 and kernel.launch_times is None


def test_launches_of_a_trace_add_up_to_its_kernels() -> None:
    """The kernels of a transformer's step on an H100, as PyTorch's profiler saw them."""
    session = session_of(TRACE)
    assert max(kernel.launches for kernel in session.kernels) > 10
    for kernel in session.kernels:
        if kernel.launches == 1:
            continue
        times, spread = kernel.launch_times, kernel.duration_percentiles_s
        assert times is not None and spread is not None
        ordered = sorted(times.durations_s)
        assert (len(ordered), ordered[0], ordered[-1]) == (spread.count, spread.min, spread.max)
        assert sum(ordered) == pytest.approx(kernel.time_total_s)
        assert (times.dropped, times.sm_clocks_hz) == (0, ())
