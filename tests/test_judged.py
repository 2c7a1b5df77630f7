"""Which part of a trace is judged: the steps, or what repeats after a start-up, with times worked out by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuprof.model.run_totals import start_up_s
from gpuprof.model.session import Session
from gpuprof.read.files import read_file
from gpuprof.timeline.trace import Activity, ProgramStep, Trace
from gpuprof.words.timeline import timeline_facts
from tests.table import each_row
from tests.test_timeline import TRANSFORMER, copy, device, kernel, of_ranks, of_rule, reduction, session, trace

MS = 1000.0
"""Microseconds."""


def step(start_us: float, us: float, name: str = "step") -> ProgramStep:
    return ProgramStep(name, start_us * 1e-6, us * 1e-6)


def launched(activity: Activity, us: float) -> Activity:
    """The activity, launched so many microseconds after the start of the trace."""
    return activity._replace(launched_s=us * 1e-6)


def rounds(start_us: float, count: int, pause_us: float = 5) -> list[Activity]:
    """So many rounds of kernels a and b, each of 45 µs and behind a pause."""
    launches = []
    for number in range(2 * count):
        start_us += pause_us
        launches.append(kernel("ab"[number % 2], start_us, 45))
        start_us += 45
    return launches


def part(found: Session) -> str | None:
    return device(found).judged


@pytest.mark.parametrize("from_start", [False, True])
def test_a_recorded_training_is_judged_by_its_steps_whoever_says_that_it_began(from_start: bool) -> None:
    recorded = read_file(str(TRANSFORMER))
    assert isinstance(recorded, Trace)
    found = session(replace(recorded, from_start=from_start))
    gpu = device(found)
    assert gpu.judged == "steps" and gpu.start_up is not None and gpu.gaps is not None
    # Three steps of 18.2 to 19.4 ms, after 4.38 s in which the GPU was busy for 6 ms.
    assert (gpu.span_s, gpu.busy_s, gpu.steps) == pytest.approx((56.0908e-3, 9.6624e-3, 3))
    assert gpu.gaps.total_s == pytest.approx(gpu.span_s - gpu.busy_s)
    assert (gpu.start_up.time_s, gpu.start_up.busy_s) == pytest.approx((4.376445, 6.0688e-3), rel=1e-4)
    assert gpu.after_s == pytest.approx(50.399e-6)
    ((_, finding),) = of_rule(found, "launch-gaps")
    assert finding.gain_total == pytest.approx(1 - 9.6624 / 56.0908, abs=1e-4)
    assert "83 % of a step, 15.5 ms of 18.7 ms" in finding.headline
    # The kernels are those of the steps; of the 644 in the trace the others come before.
    assert sum(one.launches for one in found.kernels) == 441 and gpu.start_up.launches == 203


def test_steps_have_what_was_launched_in_them_and_no_more() -> None:
    # A copy of 1 ms, a pause of 9, the kernels of two steps of 100 µs that begin at 10 ms, and a fetch 5 ms later.
    first = 10 * MS
    activities = (
        copy("host to device", 0, 1 * MS, 1_000_000),
        launched(kernel("a", first + 20, 50), first + 5),
        launched(kernel("b", first + 90, 40), first + 80),
        launched(kernel("a", first + 160, 30), first + 110),
        launched(kernel("b", first + 210, 20), first + 190),
        launched(copy("device to host", first + 5 * MS, 10, 8), first + 5 * MS - 5),
    )
    found = session(trace(*activities, steps=(step(first, 100), step(first + 100, 100))))
    gpu = device(found)
    assert gpu.judged == "steps" and gpu.start_up is not None and gpu.gaps is not None
    # From the first step's start, 20 µs before the GPU begins, to the end of the last step's kernel.
    assert (gpu.span_s, gpu.busy_s, gpu.kernel_s) == pytest.approx((230e-6, 140e-6, 140e-6))
    assert (gpu.gaps.count, gpu.gaps.total_s, gpu.gaps.longest_s) == pytest.approx((4, 90e-6, 30e-6))
    assert (gpu.start_up.time_s, gpu.start_up.busy_s) == pytest.approx((10000e-6, 1000e-6))
    assert gpu.after_s == pytest.approx(5010e-6 - 230e-6)
    assert gpu.copies == () and of_rule(found, "exposed-copies") == []
    assert gpu.strip is not None and gpu.strip.bin_s * 270 == pytest.approx(230e-6)


@each_row(("from_start", "name"), [(False, "before"), (True, "start-up")])
def test_what_comes_before_the_steps_is_a_start_up_if_the_recording_begins_with_the_program(
    from_start: bool, name: str
) -> None:
    # As a window of the profiler's schedule: a kernel of the step before ends in it.
    activities = (launched(kernel("a", 10, 90), 0), launched(kernel("a", 100, 90), 90))
    found = session(replace(trace(*activities, steps=(step(50, 100),)), from_start=from_start))
    facts = dict(timeline_facts(found))
    assert facts.keys() & {"before", "start-up"} == {name}
    assert facts[name].startswith("90.0 µs") and start_up_s(device(found)) == pytest.approx(90e-6 if from_start else 0)


def test_what_was_launched_before_the_steps_keeps_the_gpu_busy_in_them() -> None:
    # A kernel of another stream runs until 40 µs after the first kernel of the steps begins.
    before = kernel("long", 0, 140)._replace(stream=9)
    launches = (launched(kernel("a", 100, 20), 95), launched(kernel("a", 180, 120), 170))
    gpu = device(session(trace(launched(before, 0), *launches, steps=(step(90, 70), step(160, 140)))))
    assert (gpu.span_s, gpu.busy_s) == pytest.approx((200e-6, 160e-6))
    assert gpu.start_up is not None
    assert (gpu.start_up.time_s, gpu.start_up.busy_s) == pytest.approx((100e-6, 100e-6))


@each_row(("inside_us", "judged"), [(33, "all"), (34, "steps")])
def test_steps_in_which_kernels_hardly_run_are_not_the_run(inside_us: float, judged: str) -> None:
    activities = (kernel("a", 0, inside_us), kernel("b", 100, 100 - inside_us))
    assert part(session(trace(*activities, steps=(step(0, 20), step(20, 20))))) == judged


def test_a_start_up_before_kernels_repeat_is_left_out() -> None:
    # 45 of a, 30 ms to load b, 45 of b; from then on 18 launches of 45 µs behind pauses of 5.
    launches = [kernel("a", 0, 45), kernel("b", 30 * MS + 45, 45)]
    found = session(trace(*launches, *rounds(30 * MS + 90, 9)))
    gpu = device(found)
    assert gpu.judged == "repetition" and gpu.start_up is not None
    assert (gpu.start_up.time_s, gpu.start_up.busy_s) == pytest.approx((30_095e-6, 90e-6))
    assert (gpu.span_s, gpu.busy_s) == pytest.approx((895e-6, 810e-6))
    assert gpu.gaps is not None and (gpu.gaps.count, gpu.gaps.longest_s) == pytest.approx((17, 5e-6))
    # The steady part is judged: 9.5 % of it is idle, which is no finding.
    assert of_rule(found, "launch-gaps") == []


def test_a_copy_that_begins_a_round_is_of_it() -> None:
    # Each round copies 40 µs, then computes 50; 20 ms go by before the first kernel.
    launches: list[Activity] = [copy("host to device", 0, 40, 8), kernel("a", 20 * MS, 50)]
    for number in range(3):
        at = 20 * MS + 60 + 100 * number
        launches += [copy("host to device", at, 40, 8), kernel("a", at + 40, 50)]
    gpu = device(session(trace(*launches)))
    assert gpu.judged == "repetition" and gpu.span_s == pytest.approx(290e-6)
    (copies,) = gpu.copies
    assert copies.count == 3 and copies.exposed_s == pytest.approx(120e-6)


@each_row(("first_us", "later_us", "judged"), [
    (30 * MS, 11 * MS, "all"), (30 * MS, 9 * MS, "repetition"),  # three times the longest later pause
    (900, 5, "all"), (1100, 5, "repetition"),  # 1 ms
])  # fmt: skip
def test_a_start_up_is_a_pause_of_another_kind_than_those_that_come_again(
    first_us: float, later_us: float, judged: str
) -> None:
    launches = [kernel("a", 0, 45), kernel("b", first_us + 45, 45), *rounds(first_us + 90, 5)]
    end_us = launches[-1].interval[1] * 1e6
    assert part(session(trace(*launches, *rounds(end_us, 1, pause_us=later_us)))) == judged


def test_a_program_that_repeats_nothing_is_judged_from_its_first_to_its_last_activity() -> None:
    launches = [kernel(f"k{number}", 50 * MS * (number > 0) + 50 * number, 45) for number in range(20)]
    gpu = device(session(trace(*launches)))
    assert (gpu.judged, gpu.start_up, gpu.after_s) == ("all", None, 0)
    assert gpu.span_s == pytest.approx(50_995e-6)


def test_work_before_a_pause_is_no_start_up() -> None:
    # 40 ms of other kernels without a pause, 30 ms on the CPU, and then 60 ms of rounds.
    work = [kernel("c", MS * number, MS) for number in range(40)]
    rest = [kernel("ab"[number % 2], 70 * MS + MS * number, MS) for number in range(60)]
    assert part(session(trace(*work, *rest))) == "all"
    # Were it a quarter of a millisecond of work, it would be one.
    assert part(session(trace(kernel("c", 0, 250), *rest))) == "repetition"


def test_new_kernels_at_the_end_are_no_start_up() -> None:
    # Ten rounds, and 20 ms later two launches of a kernel that evaluates them: no pause is longer than that one.
    launches = [*rounds(0, 10), kernel("evaluate", 21 * MS, 45), kernel("evaluate", 21.1 * MS, 45)]
    gpu = device(session(trace(*launches)))
    assert gpu.judged == "all" and gpu.span_s == pytest.approx(21_140e-6)


def test_first_steps_that_load_are_a_warm_up() -> None:
    # Two steps of 5 and 30 ms with 90 µs of kernels each, and nine of 100 µs.
    launches = [*rounds(5 * MS - 105, 1), *rounds(35 * MS - 105, 1), *rounds(35 * MS, 9)]
    steps = [step(0, 5 * MS), step(5 * MS, 30 * MS), *(step(35 * MS + 100 * number, 100) for number in range(9))]
    found = session(trace(*launches, steps=tuple(steps)))
    gpu = device(found)
    assert (gpu.judged, gpu.steps) == ("steps", 9) and gpu.span_s == pytest.approx(900e-6)
    assert gpu.warm_up is not None and (gpu.warm_up.steps, gpu.warm_up.launches) == (2, 4)
    assert (gpu.warm_up.time_s, gpu.warm_up.busy_s) == pytest.approx((35e-3, 180e-6))
    assert gpu.start_up is None and sum(one.launches for one in found.kernels) == 18
    assert found.timeline is not None
    (times,) = found.timeline.steps
    assert times.count == 9 and times.per_s == pytest.approx(10_000)


def test_a_first_step_in_which_the_gpu_computes_is_no_warm_up() -> None:
    # A prefill of 10 ms and ten tokens of 1 ms: the GPU computes all the time.
    launches = [kernel("prefill", 0, 10 * MS), *(kernel("token", (10 + number) * MS, MS) for number in range(10))]
    steps = (step(0, 10 * MS), *(step((10 + number) * MS, MS) for number in range(10)))
    gpu = device(session(trace(*launches, steps=steps)))
    assert (gpu.warm_up, gpu.steps) == (None, 11)


@each_row(("later_ms", "warm_up"), [(0.9, 1), (1.1, 0)])
def test_a_first_step_no_longer_than_a_later_pause_is_judged(later_ms: float, warm_up: int) -> None:
    # The first step waits 3 ms, and one of the later ones, such as for a checkpoint, a third of that or more.
    times = [3.02 * MS, 100, 100, later_ms * MS, 100]
    begins = [sum(times[:number]) for number in range(5)]
    launches = [kernel("a", begin, 20) for begin in begins]
    steps = tuple(step(begin, us) for begin, us in zip(begins, times, strict=True))
    gpu = device(session(trace(*launches, steps=steps)))
    assert (gpu.warm_up.steps if gpu.warm_up is not None else 0) == warm_up


def test_an_evaluation_between_steps_is_not_judged_and_a_usual_pause_for_data_is() -> None:
    # Four steps of 100 µs, 30 µs apart for data; between the second and the third 50 µs of another kernel.
    launches, steps = [], []
    for at in (0, 130, 320, 450):
        steps.append(step(at, 100))
        launches.append(kernel("train", at + 10, 80))
    launches.insert(2, kernel("evaluate", 240, 50))
    found = session(trace(*launches, steps=tuple(steps)))
    gpu = device(found)
    assert gpu.span_s == pytest.approx(460e-6) and gpu.busy_s == pytest.approx(320e-6)
    assert gpu.between is not None and gpu.between.launches == 1
    assert (gpu.between.time_s, gpu.between.busy_s) == pytest.approx((90e-6, 50e-6))
    assert [one.name for one in found.kernels] == ["train"]
    assert gpu.gaps is not None and gpu.gaps.total_s == pytest.approx(140e-6)


def test_steps_of_several_threads_at_once_count_once() -> None:
    steps = tuple(replace(step(100 * number, 100), thread=thread) for number in range(3) for thread in "ab")
    gpu = device(session(trace(*(kernel("a", 100 * number, 50) for number in range(3)), steps=steps)))
    assert gpu.steps == 3 and gpu.span_s == pytest.approx(300e-6)


def test_a_hole_with_room_for_another_step_is_not_judged() -> None:
    # Steps of 100 µs, 5 apart; saving takes 200.
    begins = (0, 105, 405, 510)
    launches = [kernel("train", at, 100) for at in begins]
    gpu = device(session(trace(*launches, steps=tuple(step(at, 100) for at in begins))))
    assert gpu.between is not None and gpu.between.time_s == pytest.approx(200e-6)
    assert (gpu.span_s, gpu.busy_s) == pytest.approx((410e-6, 400e-6))


def test_the_end_of_the_last_step_is_judged() -> None:
    # A single step of 100 ms that computes for 10 ms, and then loads data; what comes later is of another kind.
    launches = (kernel("a", 10 * MS, 10 * MS), kernel("save", 300 * MS, MS))
    found = session(trace(*launches, steps=(step(0, 100 * MS, "ProfilerStep"),)))
    gpu = device(found)
    assert gpu.span_s == pytest.approx(0.1) and gpu.gaps is not None and gpu.gaps.total_s == pytest.approx(0.09)
    assert gpu.gaps.longest_s == pytest.approx(0.08) and gpu.after_s == pytest.approx(0.201)
    assert found.timeline is not None
    assert sum(wait.idle_s for wait in found.timeline.waits) == pytest.approx(0.09)
    ((_, finding),) = of_rule(found, "launch-gaps")
    assert finding.gain_total == pytest.approx(0.9)


def test_launching_ahead_of_the_gpu_moves_the_steps_on_it() -> None:
    # Three steps of 10 µs on the CPU launch 100 µs each; the GPU is still busy with what came before.
    before = launched(kernel("before", 0, 100), 0)
    work = [launched(kernel("a", 100 + 100 * number, 100), 10 + 10 * number) for number in range(3)]
    found = session(trace(before, *work, steps=tuple(step(10 + 10 * number, 10) for number in range(3))))
    gpu = device(found)
    assert (gpu.span_s, gpu.busy_s) == pytest.approx((300e-6, 300e-6))
    assert gpu.start_up is not None and gpu.start_up.time_s == pytest.approx(100e-6)
    assert [one.name for one in found.kernels] == ["a"]


def test_a_copy_ahead_of_its_step_does_not_begin_it() -> None:
    # The GPU still computes what was launched before for 1 ms when the first step's data arrive.
    before = [launched(kernel("a", 100 * number, 100), -10) for number in range(10)]
    fetch = launched(copy("host to device", 20, 30, 8), 5)._replace(stream=21)
    own = [launched(kernel("a", 1000 + 100 * number, 100), 10 + number) for number in range(10)]
    found = session(trace(*before, fetch, *own, steps=(step(0, 50),)))
    gpu = device(found)
    assert gpu.start_up is not None
    assert gpu.span_s == pytest.approx(1e-3) and gpu.start_up.launches == 10 and gpu.copies == ()
    assert sum(kernel.launches for kernel in found.kernels) == 10


def test_ranks_that_wait_before_the_steps_are_not_blamed() -> None:
    """A first collective in which rank 1 waits for 1 ms, and 2 steps in which it waits 30 µs each."""
    slow, fast = [reduction(MS, 20)], [reduction(0, MS + 20)]
    for at in (2 * MS, 2 * MS + 100):
        slow += [kernel("a", at, 70), reduction(at + 70, 20)]
        fast += [kernel("a", at, 40), reduction(at + 40, 50)]
    found = of_ranks(tuple(slow), tuple(fast), steps=(step(2 * MS - 1, 100), step(2 * MS + 99, 100)))
    assert found.timeline is not None
    awaited, waiting = (gpu.communication for gpu in found.timeline.devices)
    assert awaited is not None and waiting is not None
    assert waiting.waiting_s == pytest.approx(60e-6) and awaited.awaited_s == pytest.approx(60e-6)
    assert waiting.launches == 2 and waiting.time_s == pytest.approx(100e-6)


def after(start_us: float, *kernels: str, us: float = 15 * MS) -> list[Activity]:
    """Kernels that run one after the other from a time on."""
    return [kernel(name, start_us + us * number, us) for number, name in enumerate(kernels)]


@each_row(("rounds_before", "judged"), [(10, "all"), (3, "all"), (2, "repetition")])
def test_a_pause_after_rounds_is_judged_whatever_kernels_follow(rounds_before: int, judged: str) -> None:
    # Rounds of a and b, half a second, and an evaluation by c; then ten rounds more. What repeats a and b before the
    # evaluation is 270 of 630, 60 of 420 or 30 of 390 ms of computing; only the last is less than a tenth.
    launches = after(0, *"ab" * rounds_before)
    launches += after(launches[-1].interval[1] * 1e6 + 500 * MS, *"cc", *"ab" * 10)
    found = session(trace(*launches))
    gaps = device(found).gaps
    assert part(found) == judged
    assert (gaps is not None and gaps.longest_s == pytest.approx(0.5)) is (judged == "all")
    assert len(of_rule(found, "launch-gaps")) == (judged == "all")


def test_the_pause_of_an_epoch_is_judged_though_its_last_batch_is_of_another_shape() -> None:
    epoch = [*"ab" * 20, "c"]
    # 41 launches of 15 ms in each of two epochs, and three seconds between them.
    found = session(trace(*after(0, *epoch), *after(3615 * MS, *epoch)))
    gpu = device(found)
    assert (gpu.judged, gpu.start_up) == ("all", None)
    assert (gpu.span_s, gpu.busy_s) == pytest.approx((4.23, 1.23))
    assert len(of_rule(found, "launch-gaps")) == 1


def test_a_pause_between_two_rounds_is_no_start_up() -> None:
    gpu = device(session(trace(*after(0, *"ab"), *after(130 * MS, *"ab"))))
    assert gpu.judged == "all" and gpu.gaps is not None and gpu.gaps.longest_s == pytest.approx(0.1)


def test_a_single_step_has_no_start_up() -> None:
    # Forward through 24 layers, 60 ms on the CPU, backward: layers repeat, the step does not.
    layers = [*after(0, *"ab" * 24, us=MS), *after(108 * MS, *"cd" * 24, us=MS)]
    found = session(trace(*layers, steps=(step(0, 156 * MS, "ProfilerStep"),)))
    gpu = device(found)
    assert (gpu.judged, gpu.start_up) == ("steps", None)
    assert (gpu.span_s, gpu.busy_s) == pytest.approx((156e-3, 96e-3))
    assert len(of_rule(found, "launch-gaps")) == 1


def test_waiting_for_other_gpus_and_loading_weights_are_a_start_up() -> None:
    # The first exchange waits 10 s for a rank that still loads; each of ten later ones takes 2 ms of a round of 35.
    launches: list[Activity] = []
    end_us = 0.0
    for exchange_us in (10_000 * MS, *[2 * MS] * 10):
        launches += [*after(end_us, *"ab"), reduction(end_us + 30 * MS, exchange_us)]
        end_us += 30 * MS + exchange_us
        launches += after(end_us, "c", us=3 * MS)
        end_us += 3 * MS
    gpu = device(session(trace(*launches)))
    assert gpu.judged == "repetition" and gpu.span_s == pytest.approx(0.35)
    assert gpu.start_up is not None and (gpu.start_up.time_s, gpu.start_up.busy_s) == pytest.approx((10.033, 10.033))
    # 3 s of copies to the GPU, and 50 tokens of 2 kernels.
    weights = [copy("host to device", 30 * MS * number, 30 * MS, 160_000_000) for number in range(100)]
    gpu = device(session(trace(*weights, *after(3000 * MS, *"ab" * 50, us=MS))))
    assert gpu.judged == "repetition" and gpu.span_s == pytest.approx(98e-3)
    assert gpu.copies == ()


@each_row(("loading_us", "warm_up"), [(5, 0), (30 * MS, 1)])
def test_a_first_step_waits_for_its_first_kernel_but_not_for_loading_it(loading_us: float, warm_up: int) -> None:
    # Ten steps of kernels a and b, each of 45 µs behind a pause of 5; the first kernel may have to be loaded.
    begin_us = loading_us - 5
    steps = (step(0, begin_us + 100), *(step(begin_us + 100 * number, 100) for number in range(1, 10)))
    gpu = device(session(trace(*rounds(begin_us, 10), steps=steps)))
    assert (gpu.judged, gpu.steps) == ("steps", 10 - warm_up)
    assert gpu.busy_s == pytest.approx((10 - warm_up) * 90e-6)
    assert gpu.span_s == pytest.approx((10 - warm_up) * 100e-6)
