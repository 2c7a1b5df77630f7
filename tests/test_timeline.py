"""What a timeline says: times worked out by hand on a few activities, and that unions and pauses always add up."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.errors import DamagedInput
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.findings import Cases
from gpuprof.model.session import DeviceTimeline, Finding, KernelProfile, Session, StepTimes
from gpuprof.read.timeline_parts import waits_for_gpu
from gpuprof.read.torch_trace import read_torch_trace
from gpuprof.store.read import read_session
from gpuprof.store.write import session_bytes
from gpuprof.timeline.analysis import analyse_traces
from gpuprof.timeline.intervals import common, merged
from gpuprof.timeline.trace import COPY, GRAPH, KERNEL, SET, SHAPES, Activity, Collective, HostWait, ProgramStep, Trace
from gpuprof.words.findings import run_sentence
from gpuprof.words.timeline import Rates, timeline_facts
from tests.table import each_row
from tests.worded import diagnose

TRANSFORMER = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-transformer/run/survey.pt.trace.json.gz"
A100 = RecordedDevice("NVIDIA A100 80GB PCIe", "8.0", sm_count=108)


def kernel(name: str, start_us: float, us: float | None, grid: int = 1000, **more: object) -> Activity:
    """A kernel launch; times in microseconds."""
    duration_s = us * 1e-6 if us is not None else None
    return Activity(KERNEL, name, 0, start_us * 1e-6, duration_s, 7, (grid, 1, 1), (256, 1, 1), 32, 0, **more)  # type: ignore[arg-type]


def copy(direction: str, start_us: float, us: float, size: int) -> Activity:
    """A copy of so many bytes; times in microseconds."""
    return Activity(COPY, direction, 0, start_us * 1e-6, us * 1e-6, 7, bytes=size)


def trace(
    *activities: Activity, steps: tuple[ProgramStep, ...] = (), devices: tuple[RecordedDevice, ...] = (A100,)
) -> Trace:
    """A trace of these activities on one A100."""
    ordered = tuple(sorted(activities, key=lambda one: one.start_s))
    return Trace("t.json", "0" * 64, "torch-trace", "torch", None, devices, ordered, steps)


def session(*traces: Trace) -> Session:
    return diagnose(analyse_traces(traces, HardwareFinder(), "1"))


def device(found: Session) -> DeviceTimeline:
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


@each_row(("name", "factor"), [
    ("all_reduce", 1.5), ("all_gather", 3.0), ("reduce_scatter", 0.75), ("all_to_all", 0.75),
    ("broadcast", 1),
])  # fmt: skip
def test_bus_bandwidth_is_that_of_nccls_tests(name: str, factor: float) -> None:
    talk = kernel("ncclKernel_X", 0, 100, collective=Collective(name, 1_000_000, 4))
    assert bus_bandwidth(talk, kernel("a", 200, 1)) == pytest.approx(factor * 1e10)


def bus_bandwidth(*activities: Activity) -> float | None:
    talk = device(session(trace(*activities))).communication
    assert talk is not None
    return talk.bus_bytes_per_s


def steps_of(found: Session) -> tuple[StepTimes, ...]:
    assert found.timeline is not None
    return found.timeline.steps


def test_steps_have_percentiles_and_the_rate_at_which_they_start() -> None:
    steps = tuple(ProgramStep("ProfilerStep", start, length) for start, length in ((0.0, 0.1), (0.1, 0.1), (0.25, 0.2)))
    found = session(trace(kernel("a", 0, 1), steps=steps))
    (step,) = steps_of(found)
    assert (step.count, step.threads, step.duration_percentiles_s.p50) == (3, 1, 0.1)
    # Three steps in the 0.45 s that are judged: launching may run ahead, so that their starts alone say less.
    assert step.per_s == pytest.approx(3 / 0.45)
    (alone,) = steps_of(session(trace(kernel("a", 0, 1), steps=steps[:1])))
    assert alone.per_s is None
    # Without a kernel in them only their starts are known: 10 a second on one thread and 20 on the other.
    both = tuple(
        ProgramStep("step", period * n, 0.01, thread) for thread, period in ((1, 0.1), (2, 0.05)) for n in range(4)
    )
    (step,) = steps_of(session(trace(kernel("a", 5e6, 1), steps=both)))
    assert step.threads == 2 and step.per_s == pytest.approx(15.0)


def test_the_rate_of_a_judged_loop_is_that_of_the_gpu() -> None:
    def rates(*steps: ProgramStep, late_us: float = 0.0) -> dict[str, float | None]:
        """The rates where each ProfilerStep launches a kernel of 1 ms, which begins so much later."""
        starts_us = [step.start_s * 1e6 for step in steps if step.name == "ProfilerStep"]
        kernels = [
            kernel("a", start_us + number * late_us, 1000, launched_s=start_us * 1e-6)
            for number, start_us in enumerate(starts_us)
        ]
        return {step.name: step.per_s for step in steps_of(session(trace(*kernels, steps=steps)))}

    # Launched every 0.1 ms, and with two optimizer steps in each.
    ahead = [ProgramStep("ProfilerStep", n * 1e-4, 1e-4) for n in range(10)]
    halves = [ProgramStep("optimizer", n * 5e-5, 5e-5) for n in range(20)]
    assert rates(*ahead, *halves, late_us=900) == {
        "ProfilerStep": pytest.approx(1000), "optimizer": pytest.approx(2000)
    }  # fmt: skip
    # An evaluation of 0.5 s between the fifth step and the sixth is not judged.
    apart = [ProgramStep("ProfilerStep", n * 1e-3 + 0.5 * (n >= 5), 0.999e-3) for n in range(10)]
    assert rates(*apart) == {"ProfilerStep": pytest.approx(1000, rel=1e-3)}


def test_the_time_of_the_program_is_named_only_if_it_is_another() -> None:
    def told(late_us: float) -> str:
        made = [ProgramStep("ProfilerStep", n * 1e-4, 1e-4) for n in range(10)]
        busy_us = 100 + late_us
        kernels = [kernel("a", n * busy_us, busy_us, launched_s=n * 1e-4) for n in range(10)]
        return dict(timeline_facts(session(trace(*kernels, steps=tuple(made))), Rates(items_per_step=731)))["steps"]

    assert "launched in" not in told(0)
    # Launched every 0.1 ms, done every 1 ms: 731 000 items a second.
    for number in ("10 of 1.00 ms", "1\u202f000 a second", "731\u202f000 items", "launched in 100 µs"):
        assert number in told(900)


def test_the_loop_is_the_profilers_step_or_the_longest_in_all() -> None:
    parts = (("forward", 0.0, 0.009), ("backward", 0.010, 0.012), ("optimizer", 0.023, 0.005))
    steps = tuple(ProgramStep(name, 0.03 * lap + start, length) for lap in range(5) for name, start, length in parts)
    found = steps_of(session(trace(kernel("a", 0, 1), steps=steps)))
    assert {step.name: step.loop for step in found} == {"forward": False, "backward": True, "optimizer": False}
    assert [step.per_s for step in found] == [pytest.approx(1 / 0.03)] * 3
    profiled = tuple(
        ProgramStep(name, 0.1 * n, length)
        for n in range(3)
        for name, length in (("epoch", 0.09), ("ProfilerStep", 0.01))
    )
    found = steps_of(session(trace(kernel("a", 0, 1), steps=profiled)))
    assert {step.name: step.loop for step in found} == {"epoch": False, "ProfilerStep": True}


def gaps_of(found: Session) -> tuple[KernelProfile, Finding]:
    """The only finding on pauses, and the kernel that it is told of."""
    (both,) = [(one, finding) for one in found.kernels for finding in one.findings if finding.rule == "launch-gaps"]
    return both


def test_launch_gaps_are_told_of_the_kernel_that_ends_most_of_them() -> None:
    launches = [one for at in range(0, 1000, 100) for one in (kernel("slow", at + 50, 20), kernel("next", at + 71, 20))]
    found = session(trace(*launches))
    told, gaps = gaps_of(found)
    assert told.name == "slow"
    # 991 − 50 µs of span, 400 µs of work: 541 of 941 are idle, of it 9 × 59 = 531 before "slow".
    assert gaps.gain_total == pytest.approx(541 / 941)
    assert (gaps.gain_kernel, gaps.severity, gaps.confidence) == (None, "high", "inferred")
    assert all(number in gaps.headline for number in ("57 % of 941 µs", "98 % of", "(531 µs)"))
    assert found.recommendations[0].rule == "launch-gaps"


def test_equal_gpus_each_have_their_own_pauses() -> None:
    # 10 ms and 50 ms of every 100: 810 of 910 ms idle, and 450 of 950.
    first = [kernel("a", 100_000 * n, 10_000) for n in range(10)]
    second = [kernel("a", 100_000 * n, 50_000)._replace(device=1) for n in range(10)]
    found = session(trace(*first, *second, devices=(A100, A100)))
    assert found.timeline is not None and len(found.devices) == 1
    assert [(one.ordinal, one.device) for one in found.timeline.devices] == [(0, 0), (1, 0)]
    assert [one.span_s for one in found.timeline.devices] == [pytest.approx(0.91), pytest.approx(0.95)]
    (only,) = found.kernels
    assert [(one.ordinal, one.kernel, one.pauses) for one in found.timeline.waits] == [(0, only.id, 9), (1, only.id, 9)]
    assert [one.idle_s for one in found.timeline.waits] == [pytest.approx(0.81), pytest.approx(0.45)]
    _, gaps = gaps_of(found)
    assert all(number in gaps.headline for number in ("GPU 0", "89 % of 910 ms", "100 % of", "(810 ms)"))
    # Of both together 68 %.
    assert gaps.gain_total == pytest.approx(1.26 / 1.86)


def test_a_finding_on_the_run_names_its_kernel_and_file_in_a_sentence() -> None:
    def idle(us: int, file: str) -> Trace:
        laps = [kernel("a", 100_000 * lap, us) for lap in range(10)]
        return replace(trace(*laps), file=file, sha256=file * 8)

    # 810 of 910 ms, and 450 of 950.
    _, gaps = gaps_of(session(idle(10_000, "one.json"), idle(50_000, "two.json")))
    assert gaps.cases.headline == ("name", "shared/gpu-of-file", "idle", "before-kernel")
    sentence = (
        "GPU 0 of one.json is idle for 89 % of 910 ms; 100 % of the idle time (810 ms) is before launches of a<{b}>"
    )
    assert run_sentence(gaps, "a<{b}>", "one.json") == sentence
    older = replace(gaps, cases=Cases(), amounts=(), labels=())
    assert run_sentence(older, "a", "one.json") == gaps.headline


def test_pauses_that_copies_end_are_told_of_the_kernel_after_them() -> None:
    # 60 µs before each copy in, 10 after it, 5 before "second".
    laps = [
        one
        for at in range(0, 1000, 100)
        for one in (copy("host to device", at, 5, 1000), kernel("first", at + 15, 15), kernel("second", at + 35, 5))
    ]
    found = session(trace(*laps))
    assert found.timeline is not None
    names = {one.id: one.name for one in found.kernels}
    waits = {(one.before, names[one.kernel or 0]): one.idle_s for one in found.timeline.waits}
    assert waits == {
        ("host to device", "first"): pytest.approx(540e-6),
        ("kernel", "first"): pytest.approx(100e-6),
        ("kernel", "second"): pytest.approx(50e-6),
    }
    told, gaps = gaps_of(found)
    assert told.name == "first"
    # 690 of 940 µs.
    assert all(number in gaps.headline for number in ("73 % of 940 µs", "78 % of", "(540 µs)"))
    assert "pin_memory" in gaps.advice and "prefetch" in gaps.advice


def test_time_that_launches_without_a_time_may_have_filled_is_not_idle() -> None:
    # 10 launches fill their 10 µs; 90 more may have.
    found = session(trace(*[kernel("a", 10 * n, 10 if n < 10 else None) for n in range(100)]))
    one = device(found)
    assert one.gaps is not None
    # The last of the timed ones ends where the first other one begins.
    assert one.gaps.total_s == pytest.approx(890e-6)
    assert one.gaps.unsure_s == pytest.approx(890e-6)
    assert [finding.rule for each in found.kernels for finding in each.findings if finding.rule == "launch-gaps"] == []
    facts = dict(timeline_facts(found))
    assert "at least 10 % of 990 µs" in facts["GPU time"] and "at most 890 µs" in facts["GPU time"]
    assert one.strip is not None and one.strip.pauses == ()
    known = dict(timeline_facts(session(trace(kernel("a", 0, 10), kernel("a", 980, 10)))))["GPU time"]
    assert "at least" not in known and "at most" not in known
    # What a trace lacks altogether may have filled any pause.
    lacking = session(replace(trace(kernel("a", 0, 10), kernel("a", 980, 10)), incomplete=True))
    assert "at most 970 µs" in dict(timeline_facts(lacking))["GPU time"]
    # 2 µs of 100 s.
    hardly = session(replace(trace(kernel("a", 0, 1), kernel("a", 99_999_999, 1)), incomplete=True))
    assert "busy at least 0 % of 100 s" in dict(timeline_facts(hardly))["GPU time"]


ACTIVITIES = st.lists(
    st.builds(
        lambda at, us, copies: copy("host to device", at, us or 1, 8) if copies else kernel("a", at, us),
        st.integers(0, 300),
        st.none() | st.integers(1, 20),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


@given(ACTIVITIES)
def test_pauses_add_up_to_the_idle_time_and_each_ends_somewhere(activities: list[Activity]) -> None:
    found = session(trace(*activities))
    one = device(found)
    idle_s, count = (one.gaps.total_s, one.gaps.count) if one.gaps is not None else (0.0, 0)
    assert found.timeline is not None
    assert idle_s == pytest.approx(one.span_s - one.busy_s, abs=1e-12)
    assert sum(wait.idle_s for wait in found.timeline.waits) == pytest.approx(idle_s, abs=1e-12)
    assert sum(wait.pauses for wait in found.timeline.waits) == count
    assert one.gaps is None or 0 <= one.gaps.unsure_s <= idle_s + 1e-12
    for each in found.kernels:
        for finding in each.findings:
            assert finding.gain_total is None or 0 <= finding.gain_total <= 1


@each_row(("pause_us", "told"), [(9.9, False), (10.1, True)])
def test_a_tenth_of_idle_time_is_told(pause_us: float, told: bool) -> None:
    # 10 % of 100 µs.
    found = session(trace(kernel("a", 0, 50), kernel("b", 50 + pause_us, 50 - pause_us)))
    assert any(finding.rule == "launch-gaps" for one in found.kernels for finding in one.findings) is told


@each_row(("pauses_us", "kind"), [
    # Under 20 µs: 19 of 59, and 38 of 59. From 1 ms on: 1000 of 1998, and 1000 of 2001.
    ((19, 40), "between"), ((19, 19, 21), "short"), ((1000, 998), "long"), ((1000, 900, 101), "between"),
])  # fmt: skip
def test_the_kind_of_pause_that_most_idle_time_is_in_decides_the_advice(
    pauses_us: tuple[float, ...], kind: str
) -> None:
    at, launches = 0.0, [kernel("a", 0, 5)]
    for pause in pauses_us:
        at += 5 + pause
        launches.append(kernel("a", at, 5))
    _, gaps = gaps_of(session(trace(*launches)))
    assert gaps.cases.why[0] == gaps.cases.action[0] == kind


@each_row(("queued_us", "counted_us", "kind"), [
    # The kernel at 600 µs ends a pause of 500: from the end of its launch on the GPU waits for something else.
    (550.0, 500.0, "queued"), (490.0, 490.0, "queued"), (300.0, 300.0, "queued"), (200.0, 200.0, "launching"),
    (19.0, 0.0, "launching"), (-400.0, 0.0, "launching"), (None, 0.0, "launching"),
])  # fmt: skip
def test_idle_time_after_a_launch_is_not_the_cpus(queued_us: float | None, counted_us: float, kind: str) -> None:
    queued_s = queued_us * 1e-6 if queued_us is not None else None
    found = session(replace(trace(kernel("a", 0, 100), kernel("b", 600, 100, queued_s=queued_s)), host_waits=()))
    gaps = device(found).gaps
    assert gaps is not None and gaps.queued_s == pytest.approx(counted_us * 1e-6)
    _, finding = gaps_of(found)
    assert finding.cases.why[0] == finding.cases.action[0] == kind


def waiting(*waits_us: tuple[float, float]) -> Trace:
    """A trace of ten kernels of 10 µs, each with a pause of 50 µs after it, and calls that wait."""
    waits = tuple(HostWait(start * 1e-6, end * 1e-6) for start, end in waits_us)
    return replace(trace(*(kernel(f"k{at}", at * 60, 10) for at in range(11))), host_waits=waits)


@each_row(("wait_us", "share"), [
    ((5.0, 12.0), 0.1),  # from before the end of a kernel to shortly after it
    ((0.0, 10.0), 0.1), ((-100.0, 60.0), 0.1),
    ((12.0, 20.0), 0.0),  # begins when nothing runs any more: it does not wait
    ((5.0, 61.0), 0.0),  # lasts longer than the pause: another thread has launched
    ((1.0, 8.0), 0.0),  # ends while the kernel still runs
])  # fmt: skip
def test_a_pause_is_of_a_wait_that_goes_on_when_it_begins_and_ends_in_it(
    wait_us: tuple[float, float], share: float
) -> None:
    gaps = device(session(waiting(wait_us))).gaps
    assert gaps is not None and gaps.waited_s == pytest.approx(share * 500e-6)


def test_waiting_for_the_gpu_is_told_from_launching_late() -> None:
    every = [(at * 60.0 + 5, at * 60.0 + 13) for at in range(10)]
    _, waits = gaps_of(session(waiting(*every)))
    (share,) = (item for item in waits.evidence if "waits for the GPU" in item.meaning)
    assert share.value == pytest.approx(100) and share.threshold == 50
    assert "CUDA graphs" not in waits.action
    _, launches = gaps_of(session(waiting(*every[:4])))
    assert "CUDA graphs" in launches.action
    # Without calls in the trace neither is known.
    _, unknown = gaps_of(session(replace(waiting(), host_waits=None)))
    assert unknown.action not in (waits.action, launches.action)
    assert len(unknown.evidence) == len(waits.evidence) - 1


def looping(end_us: float, *pauses_us: float) -> Trace:
    """Steps of 2 kernels of 100 µs with 1 µs between them, and a wait in each until some time after the second one."""
    at, launches, waits, steps = 0.0, [], [], []
    for pause_us in pauses_us:
        launches += [kernel("a", at, 100), kernel("b", at + 101, 100)]
        waits.append(HostWait((at + 150) * 1e-6, (at + 201 + end_us) * 1e-6, operator="aten::item"))
        steps.append(ProgramStep("Step", at * 1e-6, (201 + pause_us) * 1e-6))
        at += 201 + pause_us
    return replace(trace(*launches, steps=tuple(steps)), host_waits=tuple(waits), recorded=frozenset({SHAPES}))


@each_row(("end_us", "pauses_us", "waited_us", "after_us", "actions"), [
    # Every pause is explained by the wait, which ends after 4 µs, and a launch in 50 µs.
    (4, 8 * (54,), 432, 0, ("waiting", "waiting-in", "to-run-ahead")),
    # Of 611 µs 54 are the wait's: data are loaded in the others. No profiler of shapes makes them.
    (4, 8 * (611,), 432, 8 * 557, ("after-waits", "waiting-in", "out-of-loop")),
    (4, (*4 * (54,), 3e6, *3 * (54,)), 432, 3e6 - 54, ("long",)),
    # A wait that is nearly as long as the pause explains all of it.
    (1980, 8 * (2000,), 16000, 0, ("waiting", "waiting-in", "to-run-ahead")),
])  # fmt: skip
def test_a_wait_explains_a_pause_only_up_to_the_first_launch_after_it(
    end_us: float, pauses_us: tuple[float, ...], waited_us: float, after_us: float, actions: tuple[str, ...]
) -> None:
    found = session(looping(end_us, *pauses_us))
    gaps = device(found).gaps
    assert gaps is not None and gaps.waited_s is not None
    assert (gaps.waited_s, gaps.after_waits_s) == pytest.approx((waited_us * 1e-6, after_us * 1e-6))
    _, finding = gaps_of(found)
    assert finding.cases.action == actions and finding.confidence == "inferred"
    assert ("aten::item" in finding.action) is (len(actions) > 1)


def test_a_single_long_pause_is_no_mean_of_steps() -> None:
    # 3 s + 7 × 54 µs + 8 × 1 µs of idle time in 3 s + 7 × 54 µs + 8 × 201 µs.
    _, stalled = gaps_of(session(looping(4, *4 * (54,), 3e6, *3 * (54,))))
    amounts = {amount.name: amount.value for amount in stalled.amounts}
    assert (amounts["time"], amounts["span"]) == pytest.approx((3.000386, 3.001986))
    assert (amounts["longest"], amounts["longest_of_idle"]) == pytest.approx((3.0, 3 / 3.000386))
    assert "one-pause" in stalled.cases.headline and "idle-in-steps" not in stalled.cases.headline
    _, even = gaps_of(session(looping(4, *8 * (611,))))
    assert {amount.name: amount.value for amount in even.amounts}["time"] == pytest.approx(612e-6)
    assert "one-pause" not in even.cases.headline and "idle-in-steps" in even.cases.headline


def replays(pause_us: float, between_us: float = 1.5) -> Trace:
    """Four launches of a graph of ten kernels of 4 µs, with a pause between two nodes and one between two launches."""
    launches, at = [], 0.0
    for replay in range(4):
        for node in range(10):
            launches.append(kernel(f"k{node}", at, 4, graph_launch=replay + 1))
            at += 4 + (pause_us if node == 9 else between_us)
    return replace(trace(*launches), host_waits=())


def test_pauses_within_a_graph_are_counted_apart_and_no_graph_is_advised_for_them() -> None:
    # 4 × 9 × 1.5 = 54 µs between nodes and 3 × 15 = 45 µs between launches, of 160 + 99 µs.
    found = session(replays(15))
    gaps = device(found).gaps
    assert gaps is not None and gaps.in_graph_s == pytest.approx(54e-6)
    assert (gaps.total_s, gaps.short_s, gaps.long_s) == pytest.approx((99e-6, 45e-6, 0.0))
    _, told = gaps_of(found)
    assert "38 % of 259 µs" in told.headline
    assert "programmatic dependent launch" in told.advice and "reduce-overhead" not in told.advice
    (share,) = (item for item in told.evidence if "nodes" in item.meaning)
    assert share.value == pytest.approx(100 * 54 / 99)
    # With 3 × 18.5 = 55.5 µs between launches most of the idle time is there.
    _, outside = gaps_of(session(replays(18.5)))
    assert (outside.cases.why[0], outside.cases.action) == ("graphs", ("graphs",))
    # The same pauses without graphs are those of launching.
    kernels = tuple(one._replace(graph_launch=None) for one in replays(18.5).activities)
    _, alone = gaps_of(session(replace(replays(18.5), activities=kernels)))
    assert alone.cases.action == ("short",)
    whole = (kernels[0]._replace(kind=GRAPH, name="graph 1"), *kernels[1:])
    _, beside = gaps_of(session(replace(replays(18.5), activities=whole)))
    assert beside.cases.action == ("graphs",)


@each_row(("call", "waits"), [
    ("cudaStreamSynchronize", True), ("cudaDeviceSynchronize", True), ("cudaEventSynchronize", True),
    ("cudaStreamSynchronize_v3020", True), ("cuCtxSynchronize", True), ("cuStreamSynchronize_ptsz", True),
    ("cudaMemcpy", True), ("cudaMemcpy_v3020", True), ("cuMemcpyDtoH_v2", True), ("cudaFree", True),
    ("cuMemFree_v2", True), ("cudaMemcpyAsync", False), ("cudaMemcpyAsync_v3020", False), ("cudaFreeHost", False),
    ("cuMemcpyDtoHAsync_v2", False), ("cudaFreeAsync", False), ("cudaFreeArray", False), ("cudaLaunchKernel", False),
    ("cuMemFreeHost", False), ("cuMemFreeAsync", False), ("cudaMemcpyPeer", False), ("cudaStreamWaitEvent", False),
    ("cudaEventQuery", False),
])  # fmt: skip
def test_calls_that_wait_for_the_gpu_are_known_by_name(call: str, waits: bool) -> None:
    assert bool(waits_for_gpu(call)) is waits


def test_an_eager_training_of_small_kernels_launches_late() -> None:
    recorded = read_torch_trace(BytesIO(TRANSFORMER.read_bytes()), "t", "0" * 64)
    found = session(replace(recorded, from_start=True))
    gaps = device(found).gaps
    # By hand: 35 calls wait, four of them for a loss that the program prints.
    assert recorded.host_waits is not None and len(recorded.host_waits) == 35
    assert gaps is not None and gaps.waited_s is not None
    assert gaps.waited_s + gaps.after_waits_s == pytest.approx(1.06e-3, rel=0.01)
    assert found.recommendations[0].rule == "launch-gaps"
    # It was recorded with shapes: the pauses are longer than without.
    assert found.recommendations[0].confidence == "guess"
    kernel = next(kernel for kernel in found.kernels if kernel.id in found.recommendations[0].kernels)
    finding = next(finding for finding in kernel.findings if finding.rule == "launch-gaps")
    assert finding.cases.advice == ("profile-less", "launching")
    told, gaps_finding = gaps_of(found)
    assert run_sentence(gaps_finding, told.label, "t") == (
        "the GPU is idle for 83 % of a step, 15.5 ms of 18.7 ms; recorded with shapes, which makes pauses longer; the "
        "idle time is spread: at most 20 % of it is before any one of 43 kernels or kinds of copies"
    )


def test_only_rules_that_need_no_counters_judge_a_timeline() -> None:
    # 64 registers would limit occupancy; 8 blocks leave 100 SMs without work.
    found = session(trace(kernel("small", 0, 50, grid=8), kernel("short", 50, 3)))
    rules = {one.name: [finding.rule for finding in one.findings] for one in found.kernels}
    assert rules == {"small": ["small-grid"], "short": ["short-kernel"]}
    # Ranges and operators distinguish launches.
    made = [kernel("gemm", 10 * n, 5, ranges=(f"layers.{n}",), operator="aten::addmm") for n in range(2)]
    found = session(trace(*made))
    assert [one.ranges for one in found.kernels] == [("layers.0", "aten::addmm"), ("layers.1", "aten::addmm")]


def test_a_saved_timeline_is_read_back_and_names_no_file_that_is_not_there() -> None:
    steps = (ProgramStep("step", 0.0, 0.1), ProgramStep("step", 0.2, 0.1))
    found = session(trace(kernel("a", 0, 10), copy("host to device", 90, 10, 8), steps=steps))
    text = session_bytes(found)
    assert read_session(text.decode(), "s.json").timeline == found.timeline
    for what in ("devices", "steps", "waits"):
        data = json.loads(text)
        data["timeline"][what][0]["source"] = 1
        with pytest.raises(DamagedInput, match="source 1"):
            read_session(json.dumps(data), "s.json")


INTERVALS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 20)).map(lambda pair: (float(pair[0]), float(pair[0] + pair[1]))),
    max_size=20,
)


@given(INTERVALS, INTERVALS)
def test_what_unions_have_in_common_is_what_both_hold(
    one: list[tuple[float, float]], other: list[tuple[float, float]]
) -> None:
    first, second = merged(one), merged(other)
    points = [{at for start, end in union for at in range(int(start), int(end))} for union in (first, second)]
    assert common(first, second) == len(points[0] & points[1]) == common(second, first)


def of_rule(found: Session, rule: str) -> list[tuple[KernelProfile, Finding]]:
    """What a rule says, and the kernels that it is told of."""
    return [(one, finding) for one in found.kernels for finding in one.findings if finding.rule == rule]


def moved(
    start_us: float, us: float, size: int, direction: str = "host to device", memory: str | None = "pageable"
) -> Activity:
    """A copy from or to memory of the host; times in microseconds."""
    return copy(direction, start_us, us, size)._replace(memory=memory)


def test_copies_that_no_kernel_runs_beside_are_exposed_by_direction_and_memory() -> None:
    # 0–100 with a kernel from 60 on; 150–250 on two streams at once, alone; 300–320 beside the last kernel.
    found = session(
        trace(
            moved(0, 100, 1_000_000),
            kernel("a", 60, 90),
            moved(150, 100, 500_000),
            moved(200, 50, 500_000)._replace(stream=8),
            kernel("a", 300, 40),
            moved(300, 20, 1000, "device to host", "pinned"),
            Activity(SET, "memset", 0, 345e-6, 5e-6, bytes=64),
        )
    )
    told = {(one.direction, one.memory): one.exposed_s for one in device(found).copies}
    assert told == {
        ("host to device", "pageable"): pytest.approx(160e-6),
        ("device to host", "pinned"): 0.0,
        ("memory set", None): None,
    }
    # 2 MB in 250 µs of copying.
    assert device(found).copies[0].bytes_per_s == pytest.approx(8e9)


def feeding(memory: str | None = "pageable", direction: str = "host to device") -> Session:
    """Four batches: 90 µs of copying 900 kB alone, then two kernels of 5 µs."""
    laps = [
        one
        for at in range(0, 400, 100)
        for one in (moved(at, 90, 900_000, direction, memory), kernel("a", at + 90, 5), kernel("b", at + 95, 4))
    ]
    return session(trace(*laps))


def test_exposed_copies_come_first_where_they_take_more_than_any_kernel() -> None:
    found = feeding()
    ((told, finding),) = of_rule(found, "exposed-copies")
    # 4 × 90 of 399 µs; kernels take 4 × 9 = 36 µs, of which "a" has 20.
    assert told.name == "a"
    assert finding.gain_total == pytest.approx(360 / 399)
    assert finding.gain_kernel is None and finding.gain_kind == "bound" and finding.severity == "high"
    for number in ("90 % of 399 µs", "360 µs", "10.0 GB/s"):
        assert number in finding.headline
    assert "36.0 µs" in finding.why
    assert "non_blocking=True" in finding.advice and "cudaMemcpyAsync" in finding.advice
    assert found.recommendations[0].rule == "exposed-copies" and finding.everywhere
    assert found.verdict is not None and "90 % of 399 µs" in found.verdict.sentence
    # Shares refer to the kernels' time if kernels take less than half of the busy time: 20 of 36 µs.
    assert "a (56 %" in found.verdict.sentence


def test_exposed_copies_and_launch_gaps_count_no_time_twice() -> None:
    # Of 100 µs each: 40 copying alone, 20 idle, 39 with a kernel, 1 idle.
    laps = [one for at in range(0, 1000, 100) for one in (moved(at, 40, 1000), kernel("a", at + 60, 39))]
    found = session(trace(*laps))
    assert {item.rule: item.gain_after for item in found.recommendations} == {
        "exposed-copies": pytest.approx(400 / 999), "launch-gaps": pytest.approx(209 / 999),
    }  # fmt: skip
    assert found.verdict is not None
    # "a" takes 390 of 999 µs, less than the copies; the pauses are less, and are told beside.
    assert "40 % of 999 µs" in found.verdict.sentence and "21 % of 999 µs" in found.verdict.notes[0]


@each_row(("us", "told"), [(49, False), (51, True)])
def test_few_exposed_copies_are_no_finding(us: float, told: bool) -> None:
    found = session(trace(moved(0, us, 1000), kernel("a", us, 1000 - us)))
    assert bool(of_rule(found, "exposed-copies")) is told
    hidden = [one for at in range(0, 400, 100) for one in (kernel("a", at, 100), moved(at + 5, 90, 900_000))]
    assert of_rule(session(trace(*hidden)), "exposed-copies") == []


def test_copies_before_the_first_kernel_of_a_surveyed_program_do_not_come_again() -> None:
    activities = (moved(0, 500, 1000), kernel("a", 500, 400), moved(900, 100, 1000))
    assert [one.exposed_s for one in device(session(trace(*activities))).copies] == [pytest.approx(600e-6)]
    surveyed = session(replace(trace(*activities), from_start=True))
    assert [one.exposed_s for one in device(surveyed).copies] == [pytest.approx(100e-6)]


def talking(exposed_us: float, rest_us: float) -> Session:
    """20 µs of communication beside a kernel, then some alone, then kernels for the rest of the time."""
    both = (kernel("a", 0, 20), kernel("ncclDevKernel_AllReduce", 0, 20 + exposed_us)._replace(stream=9))
    return session(trace(*both, kernel("a", 20 + exposed_us, rest_us)))


def test_missing_kernels_expose_no_copies_and_no_communication() -> None:
    nccl = kernel("ncclDevKernel_AllReduce", 100, 500)._replace(stream=9)
    work = (kernel("a", 0, 90), copy("host to device", 700, 300, 8), nccl, kernel("a", 1100, 90))
    rules = ("exposed-communication", "exposed-copies")
    assert [len(of_rule(session(trace(*work)), rule)) for rule in rules] == [1, 1]
    lacking = session(replace(trace(*work), incomplete=True))
    gpu = device(lacking)
    assert gpu.communication is not None and gpu.communication.exposed_s is None and gpu.copies[0].exposed_s is None
    assert [of_rule(lacking, rule) for rule in rules] == [[], []]
    # A kernel whose end is not known may have run until the next one of its stream.
    untimed = device(session(trace(kernel("a", 0, 90), kernel("b", 95, None), nccl, kernel("a", 1100, 90))))
    assert untimed.communication is not None and untimed.communication.exposed_s == 0


def test_exposed_communication_is_something_to_change() -> None:
    found = talking(exposed_us=40, rest_us=40)
    ((told, finding),) = of_rule(found, "exposed-communication")
    assert told.name == "ncclDevKernel_AllReduce"
    assert "40 % of 100 µs" in finding.headline and "40.0 µs of 60.0 µs" in finding.headline
    assert finding.gain_kind == "bound" and finding.gain_total == pytest.approx(0.4)
    assert "FSDP" in finding.advice
    assert found.recommendations[0].rule == "exposed-communication"
    for us, is_told in ((4.9, False), (5.1, True)):
        assert bool(of_rule(talking(us, 80 - us), "exposed-communication")) is is_told


def test_a_copy_beside_communication_is_not_exposed_and_counts_once() -> None:
    # 50 µs of communication alone with a copy beside it, then a kernel.
    both = (kernel("ncclDevKernel_AllGather", 0, 50), moved(0, 50, 1000)._replace(stream=8))
    found = session(trace(*both, kernel("a", 50, 50)))
    assert [one.exposed_s for one in device(found).copies] == [0.0]
    assert [item.rule for item in found.recommendations] == ["exposed-communication"]


def reduction(start_us: float, us: float | None, **more: object) -> Activity:
    """An all-reduce of 1 MB over two ranks, in a group of them, on a stream of its own."""
    done = replace(Collective("all_reduce", 1_000_000, 2, group="0 [0, 1]"), **more)
    return kernel("ncclDevKernel_AllReduce", start_us, us, collective=done)._replace(stream=9)


def of_ranks(
    *activities: tuple[Activity, ...], ranks: tuple[int | None, ...] = (0, 1), steps: tuple[ProgramStep, ...] = ()
) -> Session:
    return session(
        *(
            replace(trace(*of_rank, steps=steps), file=f"r{number}.json", sha256=f"{number}" * 64, rank=rank)
            for number, (of_rank, rank) in enumerate(zip(activities, ranks, strict=True))
        )
    )


def straggling() -> Session:
    """Two steps of 100 µs. Rank 0 computes 70 µs and arrives last; rank 1 computes 40, and 10 beside its wait."""
    slow, fast = [], []
    for at in (0, 100):
        slow += [kernel("a", at, 70), reduction(at + 70, 20), kernel("b", at + 90, 10)]
        fast += [kernel("a", at, 40), reduction(at + 40, 50), kernel("c", at + 50, 10), kernel("b", at + 90, 10)]
    return of_ranks(tuple(slow), tuple(fast))


def test_collectives_of_ranks_tell_waiting_from_moving_data() -> None:
    found = straggling()
    assert found.timeline is not None
    slow, fast = (one.communication for one in found.timeline.devices)
    assert slow is not None and fast is not None
    # Rank 1 waits 2 × 30 µs, of which it computes in 2 × 10; 20 µs move 1 MB.
    assert (slow.waiting_s, fast.awaited_s) == (0.0, 0.0)
    assert fast.waiting_s == pytest.approx(40e-6) and slow.awaited_s == pytest.approx(40e-6)
    assert (slow.exposed_s, fast.exposed_s) == pytest.approx((40e-6, 80e-6))
    assert fast.bus_bytes_per_s == pytest.approx(2e10) and fast.transfer_bytes_per_s == pytest.approx(5e10)
    ((told, finding),) = of_rule(found, "waiting-for-ranks")
    assert (told.name, told.rank) == ("ncclDevKernel_AllReduce", 1)
    assert slow.late_for == "computing" and slow.late_s == pytest.approx(40e-6)
    for number in ("GPU 0 of rank 1", "20 % of 200 µs", "40.0 µs of 100 µs", "100 %", "rank 0 computes longer"):
        assert number in finding.headline
    # Rank 1 waits 40 of 200 µs: as much goes if rank 0 becomes as fast. 40 more on each rank move data alone.
    assert {item.rule: item.gain_total for item in found.recommendations if item.gain_total} == {
        "waiting-for-ranks": pytest.approx(40 / 200), "exposed-communication": pytest.approx(80 / 400),
    }  # fmt: skip


ALONE = (kernel("a", 0, 70), reduction(70, 20))
WAITING = (kernel("a", 0, 40), reduction(40, 50))


@each_row(("other", "ranks"), [
    ((*WAITING, reduction(100, 5)), (0, 1)), ((kernel("a", 0, 40), reduction(40, 50, bytes=2_000_000)), (0, 1)),
    ((kernel("a", 0, 40), reduction(40, 50, name="all_gather")), (0, 1)),
    ((kernel("a", 0, 40), reduction(40, 50, group=None)), (0, 1)),
    ((kernel("a", 0, 40), reduction(40, 50, number=7)), (0, 1)),
    ((kernel("a", 0, 40), reduction(40, 50, ranks=4)), (0, 1)), ((kernel("a", 0, 40), reduction(40, None)), (0, 1)),
    (WAITING, (0, 0)), (WAITING, (0, None)),
], ids=["count", "bytes", "name", "no group", "number", "size", "time", "same rank", "no rank"])  # fmt: skip
def test_nothing_is_said_of_waits_where_pairing_is_not_sure(
    other: tuple[Activity, ...], ranks: tuple[int | None, ...]
) -> None:
    found = of_ranks(ALONE, other, ranks=ranks)
    assert found.timeline is not None
    assert {one.communication.waiting_s for one in found.timeline.devices if one.communication} == {None}
    assert of_rule(found, "waiting-for-ranks") == []
