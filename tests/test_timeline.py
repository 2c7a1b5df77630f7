"""What a timeline says: times worked out by hand on a few activities, and that unions and pauses always add up."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.diagnose.diagnose import diagnose
from gpuprof.errors import DamagedInput
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.intervals import common, merged
from gpuprof.model.session import DeviceTimeline, Finding, KernelProfile, Session, StepTimes
from gpuprof.model.timeline import analyse_traces
from gpuprof.model.trace import COPY, KERNEL, SET, Activity, Collective, HostWait, ProgramStep, Trace
from gpuprof.present.timeline_text import Rates, timeline_facts
from gpuprof.read.timeline_parts import waits_for_gpu
from gpuprof.read.torch_trace import read_torch_trace
from gpuprof.read.torch_words import collective
from gpuprof.store.read import read_session
from gpuprof.store.write import session_bytes
from tests.readings import session_of

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


def test_barriers_and_kernels_that_move_nothing_have_no_part_in_the_bus_bandwidth() -> None:
    reduce = kernel("ncclDevKernel_AllReduce", 0, 100, collective=Collective("all_reduce", 1_000_000, 8))
    waiting = kernel("ncclDevKernel_AllReduce", 200, 100_000, collective=Collective("barrier", 4, 8))
    empty = kernel("ncclDevKernel_X", 200_000, 50, collective=Collective("wait", 0, 8))
    talk = device(session(trace(reduce, waiting, empty))).communication
    # 1 MB × 2 · 7 ÷ 8 in 100 µs.
    assert talk is not None and talk.bus_bytes_per_s == pytest.approx(17.5e9)
    alone = device(session(trace(waiting, empty))).communication
    assert alone is not None and alone.bus_bytes_per_s is None


def test_a_gather_by_what_a_rank_gets_has_the_bandwidth_of_its_part() -> None:
    args = {"Collective name": "_allgather_base", "In msg nelems": 0, "Out msg nelems": 2_000_000, "dtype": "BFloat16"}
    gather = collective({**args, "Group size": 8})
    talk = device(session(trace(kernel("ncclDevKernel_AllGather", 0, 50, collective=gather)))).communication
    # 4 MB ÷ 8 ranks × 7 others in 50 µs.
    assert talk is not None and talk.bus_bytes_per_s == pytest.approx(70e9)


def steps_of(found: Session) -> tuple[StepTimes, ...]:
    """The steps of a session's timeline."""
    assert found.timeline is not None
    return found.timeline.steps


def test_steps_have_percentiles_and_the_rate_at_which_they_start() -> None:
    steps = tuple(ProgramStep("ProfilerStep", start, length) for start, length in ((0.0, 0.1), (0.1, 0.1), (0.25, 0.2)))
    found = session(trace(kernel("a", 0, 1), steps=steps))
    (step,) = steps_of(found)
    assert (step.count, step.threads, step.duration_percentiles_s.p50) == (3, 1, 0.1)
    # Two starts in the 0.25 s after the first.
    assert step.per_s == pytest.approx(8.0)
    facts = dict(timeline_facts(found, Rates(4096, 3.0)))
    # 4096 · 8 = 32 768 a second; 3 an hour ÷ 3600 s ÷ 32 768 · 10⁶ = 0.02543.
    assert "8.00 a second, taken as the step: 32800 items a second, 0.0254 for a million items" in facts["steps"]


def test_time_between_steps_counts_for_their_rate() -> None:
    # 1 ms every 10 ms.
    steps = tuple(ProgramStep("step", 0.010 * number, 0.001) for number in range(11))
    (step,) = steps_of(session(trace(kernel("a", 0, 1), steps=steps)))
    assert step.per_s == pytest.approx(100.0)


def test_items_are_counted_by_one_loop_the_longest_in_all() -> None:
    parts = (("forward", 0.0, 0.009), ("backward", 0.010, 0.012), ("optimizer", 0.023, 0.005))
    steps = tuple(ProgramStep(name, 0.03 * lap + start, length) for lap in range(5) for name, start, length in parts)
    found = session(trace(kernel("a", 0, 1), steps=steps))
    assert [(one.name, one.loop) for one in steps_of(found)] == [
        ("forward", False), ("backward", True), ("optimizer", False),
    ]  # fmt: skip
    assert [one.per_s for one in steps_of(found)] == [pytest.approx(1 / 0.03)] * 3
    texts = [text for name, text in timeline_facts(found, Rates(1.0, 3.0)) if name == "steps"]
    assert [text.count("items a second") for text in texts] == [0, 1, 0]
    assert "33.3 a second, taken as the step: 33.3 items a second" in texts[1]


def test_the_profilers_steps_are_the_loop_whatever_else_takes_longer() -> None:
    steps = tuple(
        ProgramStep(name, 0.1 * n, length)
        for n in range(3)
        for name, length in (("epoch", 0.09), ("ProfilerStep", 0.01))
    )
    assert {one.name: one.loop for one in steps_of(session(trace(kernel("a", 0, 1), steps=steps)))} == {
        "epoch": False, "ProfilerStep": True,
    }  # fmt: skip


def test_the_rate_of_several_threads_is_that_of_each() -> None:
    # 10 a second on one thread and 20 on the other.
    steps = tuple(
        ProgramStep("step", period * n, 0.01, thread) for thread, period in ((1, 0.1), (2, 0.05)) for n in range(4)
    )
    found = session(trace(kernel("a", 0, 1), steps=steps))
    (step,) = steps_of(found)
    assert step.threads == 2 and step.per_s == pytest.approx(15.0)
    assert "15.0 a second on each of 2 threads" in dict(timeline_facts(found))["steps"]


def test_one_step_has_no_rate() -> None:
    found = session(trace(kernel("a", 0, 1), steps=(ProgramStep("ProfilerStep", 0.0, 0.5),)))
    assert steps_of(found)[0].per_s is None
    text = dict(timeline_facts(found, Rates(4096, 3.0)))["steps"]
    assert "no rate" in text and "items" not in text


@pytest.mark.parametrize(
    ("ranks", "says"),
    [((3, 5), ["rank 3", "rank 5"]), ((0, 0), ["first", "second"]), ((None, 1), ["first", "second"])],
)
def test_what_several_files_say_is_told_of_rank_or_file(ranks: tuple[int | None, int], says: list[str]) -> None:
    steps = (ProgramStep("ProfilerStep", 0.0, 0.1), ProgramStep("ProfilerStep", 0.1, 0.1))
    both = [
        replace(trace(kernel("a", 0, 1), steps=steps), file=f"run-{name}.json", rank=rank)
        for name, rank in zip(("first", "second"), ranks, strict=True)
    ]
    facts = list(timeline_facts(session(*both)))
    for row in ("steps", "GPU 0"):
        assert [text.split(": ")[0] for name, text in facts if name == row] == says


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
    assert "the GPU is idle 57 % of 941 µs; 98 % of that (531 µs) before launches of this kernel" in gaps.headline
    assert found.opportunities[0].rule == "launch-gaps"
    assert len(gaps.action) <= 110 and not gaps.action.endswith(".")


def test_equal_gpus_each_have_their_own_pauses() -> None:
    # 10 ms and 50 ms of every 100: 810 of 910 ms idle, and 450 of 950.
    first = [kernel("a", 100_000 * n, 10_000) for n in range(10)]
    second = [kernel("a", 100_000 * n, 50_000)._replace(device=1) for n in range(10)]
    found = session(trace(*first, *second, devices=(A100, A100)))
    assert found.timeline is not None and len(found.devices) == 1
    assert [(one.ordinal, one.device) for one in found.timeline.devices] == [(0, 0), (1, 0)]
    (only,) = found.kernels
    assert [(one.ordinal, one.kernel, one.pauses) for one in found.timeline.waits] == [(0, only.id, 9), (1, only.id, 9)]
    assert [one.idle_s for one in found.timeline.waits] == [pytest.approx(0.81), pytest.approx(0.45)]
    _, gaps = gaps_of(found)
    assert "GPU 0 is idle 89 % of 910 ms; 100 % of that (810 ms) before launches of this kernel" in gaps.headline
    assert gaps.gain_total == pytest.approx(1.26 / 1.86)
    assert "All 2 GPUs together are idle 68 % of their time." in gaps.why


def test_the_idlest_gpu_is_told_of_its_own_pauses() -> None:
    # GPU 0 is idle for 40 µs before "a" and 30 before "b", GPU 1 for 60 before "b".
    first = (kernel("a", 0, 10), kernel("a", 50, 10), kernel("b", 90, 10))
    second = (kernel("b", 0, 10)._replace(device=1), kernel("b", 70, 30)._replace(device=1))
    told, gaps = gaps_of(session(trace(*first, *second, devices=(A100, A100))))
    assert told.name == "a"
    assert "GPU 0 is idle 70 % of 100 µs; 57 % of that (40.0 µs)" in gaps.headline
    assert gaps.gain_total == pytest.approx(130 / 200)


def test_the_gpu_of_one_of_several_ranks_is_named_by_it() -> None:
    busy = replace(trace(kernel("a", 0, 100)), file="r0.json", rank=0)
    idle = replace(trace(kernel("a", 0, 10), kernel("a", 90, 10)), file="r1.json", rank=1)
    told, gaps = gaps_of(session(busy, idle))
    assert told.source == 1
    assert "GPU 0 of rank 1 is idle 80 %" in gaps.headline
    assert gaps.gain_total == pytest.approx(80 / 200)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (("runs/busy.json", "runs/idle.json"), "GPU 0 of idle.json is idle 80 % of 100 µs"),
        (("busy/t.json", "idle/t.json"), "GPU 0 of idle/t.json is idle 80 % of 100 µs"),
    ],
)
def test_the_gpu_of_one_of_several_files_is_named_by_it_in_the_verdict(files: tuple[str, str], named: str) -> None:
    busy = replace(trace(kernel("a", 0, 100)), file=files[0])
    idle = replace(trace(kernel("b", 0, 10), kernel("b", 90, 10)), file=files[1])
    found = session(busy, idle)
    assert found.verdict is not None and found.verdict.notes[0].startswith(named)


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
    assert "idle 73 % of 940 µs; 78 % of that (540 µs) before host-to-device copies" in gaps.headline
    assert "pin_memory" in gaps.advice and "prefetch" in gaps.advice
    assert "before this kernel than before any other" in gaps.why


def test_pauses_at_copies_that_no_kernel_follows_are_told_of_another_one() -> None:
    found = session(trace(kernel("a", 0, 10), copy("device to host", 90, 10, 8)))
    told, gaps = gaps_of(found)
    assert told.name == "a"
    assert "100 % of that (80.0 µs) before device-to-host copies" in gaps.headline
    assert ".item()" in gaps.advice and "before this kernel" not in gaps.why


def test_copies_alone_have_no_kernel_to_tell_of() -> None:
    found = session(trace(copy("device to host", 0, 1, 8), copy("device to host", 90, 1, 8)))
    assert (found.kernels, found.opportunities) == ((), ())


def test_idle_time_of_a_recorded_training_ends_at_its_copies(reports: Path) -> None:
    found = session_of(reports / "traces" / "resnet50-v100.pt.trace.json.gz")
    told, gaps = gaps_of(found)
    assert "73 % of that (286 ms) before host-to-device copies" in gaps.headline
    assert "[32, 3, 224, 224]" in told.label, "the first layer, which takes the images"


def test_time_that_launches_without_a_time_may_have_filled_is_not_idle() -> None:
    # 10 launches fill their 10 µs; 90 more may have.
    found = session(trace(*[kernel("a", 10 * n, 10 if n < 10 else None) for n in range(100)]))
    one = device(found)
    assert one.gaps is not None
    # The last of the timed ones ends where the first other one begins.
    assert one.gaps.total_s == pytest.approx(890e-6)
    assert one.gaps.unsure_s == pytest.approx(890e-6)
    assert [finding.rule for each in found.kernels for finding in each.findings if finding.rule == "launch-gaps"] == []


@pytest.mark.parametrize(("unsure_us", "confidence"), [(19, "inferred"), (21, "guess")])
def test_much_idle_time_that_may_be_filled_makes_a_guess(unsure_us: float, confidence: str) -> None:
    # 100 µs of pauses, of which so many come after a launch without a time.
    launches = [kernel("a", 0, 10), kernel("a", 110 - unsure_us, None), kernel("a", 110, 10)]
    _, gaps = gaps_of(session(trace(*launches)))
    assert gaps.confidence == confidence
    assert ("may have filled" in gaps.why) is (confidence == "guess")
    assert gaps.gain_total == pytest.approx(100 / 120)


def test_launches_that_follow_at_once_make_no_pauses() -> None:
    # As binary fractions a few microseconds and a few more are less than their sum.
    pairs = [(a, b) for a in range(1, 30) for b in range(1, 30) if a * 1e-6 + b * 1e-6 < (a + b) * 1e-6]
    assert pairs
    for start, length in pairs:
        one = device(session(trace(kernel("a", start, length), kernel("a", start + length, 10))))
        assert one.gaps is None


def test_the_doubt_about_a_launch_without_a_time_ends_with_the_pause_after_it() -> None:
    other = kernel("a", 50, 10)._replace(stream=8)
    one = device(session(trace(kernel("a", 0, 10), kernel("a", 10, None), other, kernel("a", 90, 10))))
    assert one.gaps is not None
    # 10 to 50 may be filled, 60 to 90 is idle.
    assert one.gaps.unsure_s == pytest.approx(40e-6)
    assert one.gaps.total_s == pytest.approx(70e-6)


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


def test_what_follows_on_a_stream_ends_the_doubt_about_a_launch_without_a_time() -> None:
    found = session(trace(kernel("a", 0, 10), kernel("a", 10, None), kernel("a", 10, 5), kernel("a", 50, 10)))
    one = device(found)
    assert one.gaps is not None and one.gaps.unsure_s == 0


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
        ((19, 40), "between launches"),
        ((19, 19, 21), "no faster than the GPU ends them"),
        ((1000, 998), "waits for data"),
        ((1000, 900, 101), "between launches"),
    ],
)
def test_the_kind_of_pause_that_most_idle_time_is_in_decides_the_advice(
    pauses_us: tuple[float, ...], says: str
) -> None:
    at, launches = 0.0, [kernel("a", 0, 5)]
    for pause in pauses_us:
        at += 5 + pause
        launches.append(kernel("a", at, 5))
    _, gaps = gaps_of(session(trace(*launches)))
    assert says in gaps.why


def waiting(*waits_us: tuple[float, float]) -> Trace:
    """A trace of ten kernels of 10 µs, each with a pause of 50 µs after it, and calls that wait."""
    waits = tuple(HostWait(start * 1e-6, end * 1e-6) for start, end in waits_us)
    return replace(trace(*(kernel(f"k{at}", at * 60, 10) for at in range(11))), host_waits=waits)


@pytest.mark.parametrize(
    ("wait_us", "share"),
    [
        ((5.0, 12.0), 0.1),  # from before the end of a kernel to shortly after it
        ((0.0, 10.0), 0.1),
        ((-100.0, 60.0), 0.1),
        ((12.0, 20.0), 0.0),  # begins when nothing runs any more: it does not wait
        ((5.0, 61.0), 0.0),  # lasts longer than the pause: another thread has launched
        ((1.0, 8.0), 0.0),  # ends while the kernel still runs
    ],
)
def test_a_pause_is_of_a_wait_that_goes_on_when_it_begins_and_ends_in_it(
    wait_us: tuple[float, float], share: float
) -> None:
    gaps = device(session(waiting(wait_us))).gaps
    assert gaps is not None and gaps.waited_s == pytest.approx(share * 500e-6)


def test_waiting_for_the_gpu_is_told_from_launching_late() -> None:
    every = [(at * 60.0 + 5, at * 60.0 + 13) for at in range(10)]
    _, waits = gaps_of(session(waiting(*every)))
    assert waits.action == "Wait for the GPU less often, so that launches run ahead of it"
    assert "begins while the program waits for the GPU" in waits.why
    (share,) = (item for item in waits.evidence if "waits for the GPU" in item.meaning)
    assert share.value == pytest.approx(100) and share.threshold == 50
    _, launches = gaps_of(session(waiting(*every[:4])))
    assert launches.action.startswith("Launch less often: CUDA graphs")
    assert "hardly waits for it" in launches.why
    # Without calls in the trace neither is known.
    _, unknown = gaps_of(session(replace(waiting(), host_waits=None)))
    assert unknown.action.startswith("Move synchronisations and CPU work")
    assert not any("waits for the GPU" in item.meaning for item in unknown.evidence)


def test_only_the_process_that_launches_next_can_have_waited() -> None:
    every = tuple(HostWait((at * 60.0 + 5) * 1e-6, (at * 60.0 + 13) * 1e-6, process=2) for at in range(10))

    def waited(process: int | None) -> float | None:
        launches = (kernel(f"k{at}", at * 60, 10, process=process) for at in range(11))
        gaps = device(session(replace(trace(*launches), host_waits=every))).gaps
        return gaps.waited_s if gaps is not None else None

    assert waited(1) == 0.0
    assert waited(2) == pytest.approx(500e-6)
    # Old exports do not say which process an activity is of.
    assert waited(None) == pytest.approx(500e-6)


def test_pauses_are_told_of_the_row_whose_launches_end_them() -> None:
    # Two builds of one kernel: one follows at once, the other after a pause.
    launches = []
    for at in range(10):
        launches += [kernel("work", at * 100, 10), kernel("work", at * 100 + 10, 10)._replace(shared_bytes=1024)]
    found = session(trace(*launches))
    told, _ = gaps_of(found)
    assert told.shared_memory_per_block == 0
    assert found.timeline is not None
    assert [wait.kernel for wait in found.timeline.waits] == [told.id]


def test_what_most_idle_time_comes_before_is_said_to_be_spread_where_it_is() -> None:
    _, finding = gaps_of(session(waiting()))
    assert finding.headline == (
        "Launch gaps: the GPU is idle 82 % of 610 µs; spread over 10 kernels and kinds of copies, 10 % of that at most "
        "before any of them"
    )


def test_idle_time_comes_first_also_where_it_is_told_of_a_kernel_that_only_sets_up() -> None:
    fill = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
    activities = [
        one for at in range(10) for one in (kernel("gemm", at * 200, 10, 8), kernel(fill, at * 200 + 100, 10))
    ]
    found = session(trace(*activities))
    told, finding = gaps_of(found)
    assert told.demangled == fill and finding.gain_total == pytest.approx(1 - 200 / 1910)
    assert [item.rule for item in found.opportunities][:2] == ["launch-gaps", "small-grid"]
    assert not found.opportunities[0].set_up


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        ("cudaStreamSynchronize", True), ("cudaDeviceSynchronize", True), ("cudaEventSynchronize", True),
        ("cudaStreamSynchronize_v3020", True), ("cuCtxSynchronize", True), ("cuStreamSynchronize_ptsz", True),
        ("cudaMemcpy", True), ("cudaMemcpy_v3020", True), ("cuMemcpyDtoH_v2", True), ("cudaFree", True),
        ("cuMemFree_v2", True), ("cudaMemcpyAsync", False), ("cudaMemcpyAsync_v3020", False), ("cudaFreeHost", False),
        ("cuMemcpyDtoHAsync_v2", False), ("cudaFreeAsync", False), ("cudaFreeArray", False),
        ("cudaLaunchKernel", False), ("cuMemFreeHost", False), ("cuMemFreeAsync", False), ("cudaMemcpyPeer", False),
        ("cudaStreamWaitEvent", False), ("cudaEventQuery", False),
    ],
)  # fmt: skip
def test_calls_that_wait_for_the_gpu_are_known_by_name(call: str, waits: bool) -> None:
    assert waits_for_gpu(call) is waits


def test_an_openacc_program_waits_after_each_kernel_and_an_eager_one_launches_late(reports: Path) -> None:
    openacc = session_of(reports / "traces/miniweather-gp100.nsys.sqlite")
    gaps = device(openacc).gaps
    assert gaps is not None and gaps.waited_s is not None and gaps.waited_s / gaps.total_s > 0.9
    assert openacc.opportunities[0].action.startswith("Wait for the GPU less often")


def test_an_eager_training_of_small_kernels_launches_late() -> None:
    recorded = read_torch_trace(TRANSFORMER.read_bytes(), "t", "0" * 64)
    found = session(replace(recorded, from_start=True))
    gaps = device(found).gaps
    # By hand: 35 calls wait, four of them for a loss that the program prints.
    assert recorded.host_waits is not None and len(recorded.host_waits) == 35
    assert gaps is not None and gaps.waited_s == pytest.approx(1.06e-3, rel=0.01)
    assert found.opportunities[0].rule == "launch-gaps"
    assert found.opportunities[0].action.startswith("Launch less often: CUDA graphs")


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
