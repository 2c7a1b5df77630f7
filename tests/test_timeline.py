"""What a timeline says: times worked out by hand on a few activities, and that unions and pauses always add up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.api import HardwareFinder
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.model.report import RecordedDevice
from gpuprof.model.session import DeviceTimeline, Session
from gpuprof.model.timeline import analyse_traces, common, merged
from gpuprof.model.trace import COPY, KERNEL, SET, Activity, Collective, Step, Trace
from gpuprof.present.timeline_words import Rates, timeline_facts

A100 = RecordedDevice("NVIDIA A100 80GB PCIe", "8.0", sm_count=108)


def kernel(name: str, start_us: float, us: float | None, grid: int = 1000, **more: object) -> Activity:
    """A kernel launch; times in microseconds."""
    duration_s = us * 1e-6 if us is not None else None
    return Activity(KERNEL, name, 0, start_us * 1e-6, duration_s, 7, (grid, 1, 1), (256, 1, 1), 32, 0, **more)  # type: ignore[arg-type]


def copy(direction: str, start_us: float, us: float, size: int) -> Activity:
    """A copy of so many bytes; times in microseconds."""
    return Activity(COPY, direction, 0, start_us * 1e-6, us * 1e-6, 7, bytes=size)


def trace(*activities: Activity, steps: tuple[Step, ...] = (), devices: tuple[RecordedDevice, ...] = (A100,)) -> Trace:
    """A trace of these activities on one A100."""
    ordered = tuple(sorted(activities, key=lambda one: one.start_s))
    return Trace("t.json", "0" * 64, "torch-trace", "torch", None, devices, ordered, steps)


def session(*traces: Trace) -> Session:
    """The diagnosed session of traces."""
    return diagnose(analyse_traces(traces, HardwareFinder(), "1"))


def device(found: Session) -> DeviceTimeline:
    """The only GPU of a session's timeline."""
    assert found.timeline is not None
    (one,) = found.timeline.devices
    return one


def test_kernels_are_grouped_with_their_times() -> None:
    found = session(trace(kernel("gemm", 0, 30), kernel("gemm", 40, 10), kernel("copy", 60, 20)))
    gemm = next(one for one in found.kernels if one.name == "gemm")
    assert (gemm.launches, gemm.duration_source) == (2, "trace")
    assert gemm.time_total_s == pytest.approx(40e-6)
    assert gemm.time_share == pytest.approx(40 / 60)
    assert gemm.duration_percentiles_s is not None and gemm.duration_percentiles_s.max == pytest.approx(30e-6)
    # 32 registers of 256 threads fill the register file of an SM with 64 warps.
    assert gemm.occupancy.theoretical == pytest.approx(1.0)
    assert [gap.what for gap in gemm.missing] == ["counters"]


def test_busy_and_idle_time_are_those_of_the_union() -> None:
    # 0–30 and 20–50 overlap, then a pause to 60, a copy to 70, a pause of 2 ms, and 10 more.
    found = session(
        trace(kernel("a", 0, 30), kernel("b", 20, 30), copy("host to device", 60, 10, 1000), kernel("a", 2070, 10))
    )
    one = device(found)
    assert one.span_s == pytest.approx(2080e-6)
    assert one.busy_s == pytest.approx(70e-6)
    assert one.kernel_s == pytest.approx(60e-6)
    assert one.gaps is not None
    assert one.gaps.count == 2
    assert one.gaps.longest_s == pytest.approx(2000e-6)
    assert one.gaps.short_s == pytest.approx(10e-6)
    assert one.gaps.long_s == pytest.approx(2000e-6)


def test_copies_are_summed_by_direction() -> None:
    found = session(
        trace(
            kernel("a", 0, 1),
            copy("host to device", 10, 10, 100_000),
            copy("host to device", 30, 30, 100_000),
            copy("device to host", 70, 5, 10),
            Activity(SET, "memset", 0, 80e-6, 1e-6, bytes=64),
        )
    )
    up, down, cleared = device(found).copies
    assert (up.direction, up.count, up.bytes) == ("host to device", 2, 200_000)
    # 200 kB in 40 µs.
    assert up.bytes_per_s == pytest.approx(5e9)
    assert (down.direction, cleared.direction) == ("device to host", "memory set")


def test_communication_that_nothing_runs_beside_is_exposed() -> None:
    reduce = Collective("all_reduce", 1_000_000, 4)
    found = session(trace(kernel("gemm", 0, 60), kernel("ncclDevKernel_AllReduce", 40, 60, collective=reduce)))
    talk = device(found).communication
    assert talk is not None
    assert talk.launches == 1
    assert talk.time_s == pytest.approx(60e-6)
    assert talk.exposed_s == pytest.approx(40e-6)
    # 1 MB × 2 · 3 ÷ 4 in 60 µs.
    assert talk.bus_bytes_per_s == pytest.approx(25e9)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("all_reduce", 1.5),
        ("_allgather_base", 3.0),
        ("_reduce_scatter_base", 0.75),
        ("all_to_allv", 0.75),
        ("broadcast", 1),
    ],
)
def test_bus_bandwidth_is_that_of_nccls_tests(name: str, factor: float) -> None:
    one = kernel("ncclKernel_X", 0, 100, collective=Collective(name, 1_000_000, 4))
    talk = device(session(trace(one, kernel("a", 200, 1)))).communication
    assert talk is not None and talk.bus_bytes_per_s == pytest.approx(factor * 1e10)


def test_without_sizes_there_is_no_bus_bandwidth() -> None:
    talk = device(session(trace(kernel("ncclKernel_X", 0, 100)))).communication
    assert talk is not None and talk.bus_bytes_per_s is None


def test_steps_have_percentiles_and_a_rate() -> None:
    steps = tuple(Step("ProfilerStep", start, length) for start, length in ((0.0, 0.1), (0.1, 0.1), (0.2, 0.2)))
    found = session(trace(kernel("a", 0, 1), steps=steps))
    assert found.timeline is not None
    (step,) = found.timeline.steps
    assert (step.count, step.duration_percentiles_s.p50) == (3, 0.1)
    assert step.per_s == pytest.approx(3 / 0.4)
    facts = dict(timeline_facts(found, Rates(4096, 3.0)))
    # 4096 · 7.5 = 30 720 a second; 3 an hour ÷ 3600 s ÷ 30 720 · 10⁶.
    assert "7.50 a second, 30700 items a second, 0.0271 for a million items" in facts["steps"]


def test_launch_gaps_are_told_of_the_kernel_that_ends_most_of_them() -> None:
    launches = [one for at in range(0, 1000, 100) for one in (kernel("slow", at + 50, 20), kernel("next", at + 71, 20))]
    found = session(trace(*launches))
    (gaps,) = [finding for one in found.kernels for finding in one.findings if finding.rule == "launch-gaps"]
    told = next(one for one in found.kernels if gaps in one.findings)
    assert told.name == "slow"
    # 991 − 50 µs of span, 400 µs of work: 541 of 941 are idle.
    assert gaps.gain_total == pytest.approx(541 / 941)
    assert (gaps.gain_kernel, gaps.severity, gaps.confidence) == (None, "high", "inferred")
    assert "idle 57 %" in gaps.headline
    assert found.ranking[0].rule == "launch-gaps"


def test_a_gpu_that_hardly_rests_has_no_launch_gaps() -> None:
    found = session(trace(*[kernel("a", at, 95) for at in range(0, 1000, 100)]))
    assert [finding.rule for one in found.kernels for finding in one.findings] == []


@pytest.mark.parametrize(("pause_us", "told"), [(9.9, False), (10.1, True)])
def test_a_tenth_of_idle_time_is_told(pause_us: float, told: bool) -> None:
    # 10 % of 100 µs.
    found = session(trace(kernel("a", 0, 50), kernel("b", 50 + pause_us, 50 - pause_us)))
    assert any(finding.rule == "launch-gaps" for one in found.kernels for finding in one.findings) is told


@pytest.mark.parametrize(
    ("pauses_us", "says"),
    [
        # Under 20 µs: 19 of 59, and 38 of 59. From 1 ms on: 1000 of 1998, and 1000 of 2001.
        ((19, 40), "between its launches"),
        ((19, 19, 21), "no faster than the GPU ends them"),
        ((1000, 998), "waits for data"),
        ((1000, 900, 101), "between its launches"),
    ],
)
def test_the_kind_of_pause_that_most_idle_time_is_in_decides_the_advice(
    pauses_us: tuple[float, ...], says: str
) -> None:
    at, launches = 0.0, [kernel("a", 0, 5)]
    for pause in pauses_us:
        at += 5 + pause
        launches.append(kernel("a", at, 5))
    (gaps,) = [
        finding
        for one in session(trace(*launches)).kernels
        for finding in one.findings
        if finding.rule == "launch-gaps"
    ]
    assert says in gaps.why


def test_only_rules_that_need_no_counters_judge_a_timeline() -> None:
    # 64 registers would limit occupancy; 8 blocks leave 100 SMs without work.
    found = session(trace(kernel("small", 0, 50, grid=8), kernel("short", 50, 3)))
    rules = {one.name: [finding.rule for finding in one.findings] for one in found.kernels}
    assert rules == {"small": ["small-grid"], "short": ["short-kernel"]}


def test_launches_without_a_time_are_kept_and_counted() -> None:
    found = session(trace(kernel("a", 0, None), kernel("a", 10, 5), kernel("b", 20, None)))
    assert {one.name: (one.launches, one.duration_s) for one in found.kernels} == {
        "a": (2, pytest.approx(5e-6)),
        "b": (1, None),
    }
    assert device(found).untimed == 2
    assert "untimed" in dict(timeline_facts(found))


def test_ranges_and_operators_tell_launches_apart() -> None:
    found = session(
        trace(
            kernel("gemm", 0, 5, ranges=("layers.0",), operator="aten::addmm"),
            kernel("gemm", 10, 5, ranges=("layers.1",), operator="aten::addmm"),
        )
    )
    assert [one.ranges for one in found.kernels] == [("layers.0", "aten::addmm"), ("layers.1", "aten::addmm")]


def test_equal_gpus_of_one_trace_have_a_timeline_each() -> None:
    second = kernel("a", 5, 10)._replace(device=1)
    found = session(trace(kernel("a", 0, 10), second, devices=(A100, A100)))
    assert found.timeline is not None
    assert [one.span_s for one in found.timeline.devices] == [pytest.approx(10e-6)] * 2
    assert len(found.devices) == 1


INTERVALS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 20)).map(lambda pair: (float(pair[0]), float(pair[0] + pair[1]))),
    max_size=20,
)


@given(INTERVALS)
def test_a_union_holds_the_same_points_in_order(intervals: list[tuple[float, float]]) -> None:
    union = merged(intervals)
    points = {at for start, end in intervals for at in range(int(start), int(end))}
    assert {at for start, end in union for at in range(int(start), int(end))} == points
    assert all(before[1] < after[0] for before, after in pairwise(union))


@given(INTERVALS, INTERVALS)
def test_what_unions_have_in_common_is_what_both_hold(
    one: list[tuple[float, float]], other: list[tuple[float, float]]
) -> None:
    first, second = merged(one), merged(other)
    points = [{at for start, end in union for at in range(int(start), int(end))} for union in (first, second)]
    assert common(first, second) == len(points[0] & points[1]) == common(second, first)
