"""Figures of whole runs on two sides, and sides of several runs, ranks and partial profiles."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import QuantityChange
from gpuprof.comparison.gate.gate import gated
from gpuprof.comparison.gate.limits import limits_of
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import Run, Side, side_of, sides_of
from gpuprof.comparison.timing.totals import totals_of
from gpuprof.comparison.timing.verdict import time_change
from gpuprof.model.field_types import JudgedPart
from gpuprof.model.groups import spread
from gpuprof.model.session import (
    DeviceTimeline,
    Exclusion,
    Gaps,
    KernelProfile,
    LeftOut,
    RunTotals,
    StepTimes,
    Timeline,
    WholeGraphs,
)
from gpuprof.words.comparison import by_function, whole_sentence, with_sentences
from gpuprof.words.comparison_rows import changed_rows
from tests.compare_builders import kernel, run, side, source
from tests.table import each_row


def totals(base: Side, new: Side) -> dict[str, QuantityChange]:
    return {change.name: change for change in totals_of(base, new)}


def timeline(
    span_s: float,
    idle_s: float | None,
    *steps_s: float,
    judged: JudgedPart = "all",
    steps: int = 0,
    graphs_s: float | None = None,
    replays: int = 20,
    outside: int = 3,
) -> Timeline:
    """The timeline of a GPU; if steps are judged, so many launches came before them."""
    gaps = Gaps(
        count=1, total_s=idle_s, median_s=idle_s, longest_s=idle_s, short_s=0.0, long_s=idle_s, unsure_s=0.0
    ) if idle_s is not None else None  # fmt: skip
    device = DeviceTimeline(
        source=0, ordinal=0, device=0, span_s=span_s, busy_s=span_s - (idle_s or 0.0),
        kernel_s=span_s - (idle_s or 0.0) - (graphs_s or 0.0), gaps=gaps,
        copies=(), communication=None, untimed=0,
        judged=judged, steps=steps,
        start_up=LeftOut(time_s=1e-3, busy_s=1e-4, launches=outside) if judged == "steps" else None,
        graphs=WholeGraphs(graphs=1, replays=replays, time_s=graphs_s, longest=()) if graphs_s is not None else None,
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


def test_a_recording_keeps_every_limit_on_its_own_total() -> None:
    one = run(kernel("a", [1e-3, 2e-3]))
    for other, word in (
        (one, "ok"),
        (replace(one, session=replace(one.session, sources=(source(sha256="1"),))), "unclear"),
    ):
        comparison = gated(compare([one], [other], "0"), limits_of(["total-time:1%"])).comparison
        assert comparison.gate is not None
        assert [check.word for check in comparison.gate.checks] == ([] if word == "ok" else [word])
        assert comparison.total[0].verdict == ("same" if word == "ok" else "unknown")


def test_timelines_tell_span_and_idle_time_and_no_step_of_a_loop_that_is_not_judged() -> None:
    base = side(kernel(), timeline=timeline(2.0, 0.5, 0.1, 0.2, 0.9))
    new = side(kernel(), timeline=timeline(1.0, None, 0.1, 0.2, 0.9))
    change = totals(base, new)
    assert (change["span"].base, change["span"].new, change["span"].ratio) == (2.0, 1.0, 0.5)
    assert (change["idle"].base, change["idle"].new, change["idle"].ratio) == (0.5, None, None)
    assert not {"step", "peak-memory"} & {*change}


def test_times_of_different_parts_of_traces_are_not_compared() -> None:
    base = run(kernel(), timeline=timeline(4.4, 4.3, 0.1, 0.2, 0.3))
    new = run(kernel(), timeline=timeline(0.6, 0.5, 0.1, 0.2, 0.3, judged="steps"))
    for other, told in ((new, [("all",), ("steps",)]), (base, [])):
        comparison = compare([base], [other], "0").comparison
        names = [change.name for change in comparison.total]
        assert [name for name in names if name in ("span", "busy", "idle", "copies")] == (
            [] if told else ["span", "busy", "idle", "copies"]
        )
        assert {"gpu-time", "launches"} <= {*names} and "step" not in names
        conditions = [each for each in comparison.conditions if each.name == "judged-part"]
        assert [(each.affects, each.kind) for each in conditions] == ([("totals", "new")] if told else [])
        assert [value for each in conditions for value in (each.base, each.new)] == told
        assert comparison.alike


@each_row(("launches", "outside", "after_s", "forbids"), [
    (60, 0, 0.0, None), (60, 1, 0.0, "totals"), (60, 0, 1e-3, "totals"),
    # The side without marks of steps may have run more of them.
    (90, 0, 0.0, "totals"),
])  # fmt: skip
def test_steps_that_have_every_launch_are_the_whole_run_beside_a_trace_of_as_many_launches(
    launches: int, outside: int, after_s: float, forbids: str | None
) -> None:
    """Ten steps launch "a" 60 times; the trace without marks of steps has another kernel."""
    whole = run(kernel("a", [60e-6] * launches), kernel("b", [40e-6] * 10), timeline=timeline(8e-3, 1e-3))
    of_steps = timeline(4e-3, 0.4e-3, judged="steps", steps=10, outside=outside)
    of_steps = replace(of_steps, devices=(replace(of_steps.devices[0], after_s=after_s),))
    steps = run(kernel("a", [60e-6] * 60, ranges=("step",)), timeline=of_steps)
    comparison = compare([steps], [whole], "0").comparison
    assert [each.affects for each in comparison.conditions if each.name == "judged-part"] == [forbids]
    assert {change.name for change in comparison.total} == {"gpu-time", "launches"}
    matches = {change.label: change.match for change in comparison.kernels}
    assert matches == {"a": "exact", "b": "new" if forbids is None else "unrecorded"}
    # Of 3.6 ms, "b" takes 0.4 ms more.
    effects = {change.label: change.effect for change in comparison.kernels}
    assert effects == pytest.approx({"a": 0.0, "b": 1 / 9} if forbids is None else {"a": None, "b": None})


FLASH = kernel("flash", [1e-3] * 20)
DECODE = kernel("decode", [450e-6] * 100)
BY_NODES = run(FLASH, DECODE, timeline=timeline(98.5e-3, 33.5e-3))
AS_A_WHOLE = run(FLASH, timeline=timeline(98.6e-3, 29.6e-3, graphs_s=49e-3))


@each_row(("base", "new", "busy_s", "graphs_s"), [
    (BY_NODES, AS_A_WHOLE, (65e-3, 69e-3), (0, 49e-3)),
    (AS_A_WHOLE, BY_NODES, (69e-3, 65e-3), (49e-3, 0)),
])  # fmt: skip
def test_a_kernel_that_whole_graphs_of_the_other_side_may_run_is_neither_new_nor_gone(
    base: Run, new: Run, busy_s: tuple[float, float], graphs_s: tuple[float, float]
) -> None:
    compared = compare([base], [new], "0")
    found = {change.label: change for change in compared.comparison.kernels}
    assert [found[name].match for name in ("flash", "decode")] == ["exact", "unrecorded"]
    assert (found["decode"].time.verdict, found["decode"].work.verdict) == ("unknown", "unknown")
    assert {(change.effect_s, change.effect) for change in found.values()} == {(None, None)}
    # The time of the kernels is a part of what ran: the verdict is on all of it.
    whole = {change.name: (change.base, change.new) for change in compared.comparison.total}
    assert [*whole][:3] == ["busy", "whole-graphs", "whole-graph-replays"]
    assert not {"gpu-time", "launches"} & {*whole}
    assert whole["busy"] == pytest.approx(busy_s) and whole["whole-graphs"] == graphs_s
    gate = gated(compared, limits_of(["time:3%", "registers", "total-time:50%"])).comparison.gate
    assert gate is not None
    about = {(check.quantity, check.kernel): (check.word, check.because) for check in gate.checks}
    assert about["total-time", None] == ("unclear", "noise")
    for quantity in ("time", "registers"):
        assert about[quantity, found["decode"].id] == ("not-compared", "unknown")


def test_a_kernel_that_the_side_with_whole_graphs_alone_has_is_new_and_their_busy_time_has_the_verdict() -> None:
    more = run(FLASH, kernel("sample"), timeline=timeline(98.6e-3, 29.6e-3, graphs_s=49e-3))
    found = {change.label: change.match for change in compare([BY_NODES], [more], "0").comparison.kernels}
    assert found == {"flash": "exact", "decode": "unrecorded", "sample": "new"}
    by_step = [
        run(FLASH, timeline=timeline(100e-3, idle_s, judged="steps", steps=20, graphs_s=graphs_s))
        for idle_s, graphs_s in ((31e-3, 49e-3), (8e-3, 72e-3))
    ]
    first = compare(by_step[:1], by_step[1:], "0").comparison.total[0]
    assert first.name == "busy-per-step" and first.ratio == pytest.approx(92 / 69)


@each_row("graphs_s", [None, 49e-3])
def test_a_kernel_outside_of_the_steps_of_one_side_is_neither_new_nor_gone(graphs_s: float | None) -> None:
    of_steps = run(FLASH, timeline=timeline(90e-3, 20e-3, judged="steps", steps=20, graphs_s=graphs_s))
    whole = run(FLASH, kernel("prefill"), timeline=timeline(98.6e-3, 29.6e-3, graphs_s=graphs_s))
    for base, new, lacking in ((of_steps, whole, "base"), (whole, of_steps, "new")):
        comparison = compare([base], [new], "0").comparison
        (prefill,) = [change for change in comparison.kernels if change.label == "prefill"]
        assert (prefill.match, prefill.time.verdict) == ("unrecorded", "unknown") and prefill.time.doubt is not None
        assert prefill.time.doubt.kind == "other-part" and list(prefill.time.doubt.sides) == [lacking]
        assert "whole-graphs" not in [fact.kind for fact in comparison.facts]
    # What is in the steps alone is not in the whole trace of the other side.
    more = run(FLASH, kernel("sample"), timeline=timeline(90e-3, 20e-3, judged="steps", steps=20))
    without = run(FLASH, timeline=timeline(98.6e-3, 29.6e-3, graphs_s=graphs_s))
    matches = {change.label: change.match for change in compare([without], [more], "0").comparison.kernels}
    assert matches == {"flash": "exact", "sample": "new" if graphs_s is None else "unrecorded"}


def test_more_replays_of_whole_graphs_and_more_launches_beside_them_are_named() -> None:
    sides = [
        [run(kernel("sample", [20e-6] * count), timeline=timeline(20e-3, 1e-3, graphs_s=9e-3, replays=count))] * 6
        for count in (20, 40)
    ]
    comparison = compare(sides[0], sides[1], "0", paired=True).comparison
    assert [change.name for change in comparison.total[:3]] == ["busy", "whole-graphs", "whole-graph-replays"]
    assert (comparison.total[2].base, comparison.total[2].new) == (20, 40)
    (sample,) = comparison.kernels
    assert (sample.time.verdict, sample.effect) == ("same", None)
    assert "sample" in whole_sentence(comparison) and "20 → 40" in whole_sentence(comparison)


def test_whole_graphs_that_move_the_run_are_named_with_the_time_of_a_replay() -> None:
    """Twenty replays of 300 µs become 400 µs; 1 % of the 9 ms with any work is more than 2 µs a replay."""
    for new_s, replays, named, numbers in (
        (8e-3, 20, True, ("300 µs → 400 µs",)),
        (6.04e-3, 20, False, ()),
        (12e-3, 40, True, ("300 µs → 300 µs", "20 → 40")),
    ):
        base, new = (
            run(kernel("sample", [time_s] * 20), timeline=timeline(10e-3, 1e-3, graphs_s=graphs_s, replays=count))
            for time_s, graphs_s, count in ((9e-6, 6e-3, 20), (9.01e-6, new_s, replays))
        )
        said = whole_sentence(compare([base], [new], "0").comparison)
        assert ("a whole CUDA graph" in said) == named and all(number in said for number in numbers)
    nodes = run(kernel("sample", [9e-6] * 20), timeline=timeline(10e-3, 1e-3))
    assert "a whole CUDA graph" not in whole_sentence(compare([base], [nodes], "0").comparison)


def a_loop(steps: int, launch_s: float, *more: KernelProfile, launches: int = 6, idle_s: float = 72e-6) -> Run:
    """A run whose steps launch a kernel so often, in a trace that is judged by them; the program launches far ahead."""
    span_s = steps * (launches * launch_s + idle_s)
    of_steps = timeline(span_s, steps * idle_s, *[1e-6] * steps, judged="steps", steps=steps)
    return run(kernel("a", [launch_s] * (steps * launches)), *more, timeline=of_steps)


def test_runs_of_other_numbers_of_steps_are_compared_by_step() -> None:
    base, new = a_loop(10, 60e-6), a_loop(20, 65e-6, idle_s=42e-6)
    comparison = compare([base], [new], "0").comparison
    found = {change.name: (change.base, change.new) for change in comparison.total}
    # Six launches of 60 µs and 72 µs of pauses, then of 65 µs and 42 µs.
    assert found == {
        "gpu-time-per-step": (pytest.approx(360e-6), pytest.approx(390e-6)),
        "launches-per-step": (6, 6),
        "step": (pytest.approx(432e-6), pytest.approx(432e-6)),
        "busy-per-step": (pytest.approx(360e-6), pytest.approx(390e-6)),
        "idle-per-step": (pytest.approx(72e-6), pytest.approx(42e-6)),
        "copies-per-step": (0, 0),
    }
    (one,) = comparison.kernels
    assert (one.per, one.base[0].launches, one.new[0].launches) == ("step", 6, 6)
    assert [one.effect_s, one.effect] == pytest.approx([30e-6, 30 / 360])
    assert "launches-per-step" in [count.name for count in one.work.counts]
    assert "GPU time per step 360 µs → 390 µs (+8.3 %)" in whole_sentence(comparison)
    # What the files have is that of the runs.
    assert (comparison.base.launches, comparison.new.launches) == (60, 120)
    assert [comparison.base.time_s, comparison.new.time_s] == pytest.approx([3.6e-3, 7.8e-3])


def test_a_limit_on_launches_of_a_step_is_written_with_both_numbers() -> None:
    compared = compare([a_loop(10, 60e-6, launches=3)], [a_loop(20, 60e-6, launches=5)], "0")
    gate = with_sentences(gated(compared, limits_of(["launches:1%"])).comparison).gate
    assert gate is not None
    (check,) = gate.checks
    assert check.word == "regression" and check.change == pytest.approx(2 / 3) and "3 → 5" in check.sentence


def test_totals_of_different_numbers_of_gpus_or_parts_of_traces_have_no_verdict_and_kernels_have() -> None:
    one = a_loop(10, 60e-6)
    assert one.session.timeline is not None
    (gpu,) = one.session.timeline.devices
    both = replace(one.session.timeline, devices=(gpu, replace(gpu, ordinal=1)))
    kernels = one.session.kernels
    two = run(*(replace(each, launches=2 * each.launches) for each in kernels), timeline=both)
    # A second GPU that only copies is not one that kernels run on: it has neither steps nor a part in the means.
    copying = replace(gpu, ordinal=1, kernel_s=0.0, busy_s=1e-6, judged="all", steps=0)
    idle = replace(both, devices=(gpu, copying))
    whole = run(*kernels, timeline=timeline(5e-3, 1e-3))
    for other, gpus, condition in (
        (two, 2, [("gpu-count", "totals")]),
        (run(*kernels, timeline=idle), 1, []),
        (whole, 1, [("judged-part", "totals")]),
    ):
        compared = compare([one] * 6, [other] * 6, "0", paired=True)
        comparison = compared.comparison
        assert [len(comparison.base.gpus), len(comparison.new.gpus)] == [1, gpus]
        assert {change.per for change in comparison.kernels} == {"run" if other is whole else "step"}
        if other is not whole:
            (busy,) = [change for change in comparison.total if change.name == "busy-per-step"]
            assert busy.ratio == pytest.approx(1)
        assert [(each.name, each.affects) for each in comparison.conditions if each.name != "file"] == condition
        assert comparison.alike and {change.time.verdict for change in comparison.kernels} == {"same"}
        gate = gated(compared, limits_of(["total-time:5%"])).comparison.gate
        assert gate is not None
        assert [check.because for check in gate.checks] == ["conditions"] * len(condition)


OF_STEPS = timeline(4e-3, 0.4e-3, judged="steps", steps=10)
ONE_GPU = run(kernel("a", [60e-6] * 60), timeline=OF_STEPS)
TWO_GPUS = run(kernel("a", [60e-6] * 120), timeline=replace(OF_STEPS, devices=OF_STEPS.devices * 2))
WITHOUT_STEPS = run(kernel("a", [60e-6] * 120), timeline=timeline(8e-3, 1e-3))
WITH_GRAPHS = run(kernel("a", [60e-6] * 20), timeline=timeline(8e-3, 1e-3, graphs_s=4e-3))


@each_row(("base", "new"), [
    (ONE_GPU, TWO_GPUS),
    (ONE_GPU, WITHOUT_STEPS),
    (WITH_GRAPHS, WITHOUT_STEPS),
])  # fmt: skip
def test_sums_over_launches_that_are_not_of_the_same_part_are_not_compared(base: Run, new: Run) -> None:
    compared = compare([base] * 6, [new] * 6, "0", paired=True)
    gate = gated(compared, limits_of(["launches"])).comparison.gate
    assert gate is not None
    (check,) = gate.checks
    assert (check.word, check.because) == ("unclear", "conditions") and check.change is not None and check.change > 0
    (change,) = compared.comparison.kernels
    assert (change.time.verdict, change.effect_s, change.effect) == ("same", None, None)
    assert "times" not in whole_sentence(compared.comparison)


def test_the_time_of_several_kernels_is_not_compared_over_other_parts_of_traces() -> None:
    split = run(kernel("b", [40e-6] * 90), kernel("c", [20e-6] * 90), timeline=timeline(8e-3, 1e-3))
    for base, verdict in ((ONE_GPU, "unclear"), (run(kernel("a", [60e-6] * 60)), "slower")):
        (change,) = compare([base] * 6, [split] * 6, "0", [NamedMatch("a", "b|c")], paired=True).comparison.kernels
        # 60 launches of 60 µs, then 90 of 60 µs.
        assert change.match == "split" and change.time.verdict == verdict
        assert change.time.ratio == pytest.approx(1.5)


def test_what_may_move_the_run_is_a_row_and_what_runs_more_often_is_not_called_the_same() -> None:
    """Four launches a step of 120, 40 and 30 µs: 760 µs; one run a side leaves all but the second unclear."""

    def program(gemm_s: float, softmax_s: float, gelu_s: float = 30e-6, launches: int = 4) -> Run:
        times = {"gemm": (gemm_s, 4), "softmax": (softmax_s, 4), "gelu": (gelu_s, launches)}
        return run(*(kernel(name, [time_s] * number) for name, (time_s, number) in times.items()))

    base = program(120e-6, 40e-6)
    for new, runs, moves, often in (
        (program(144e-6, 60e-6), 1, {"gemm": 96 / 760, "softmax": 80 / 760}, 0),
        (program(144e-6, 20e-6), 1, {"gemm": 96 / 760, "softmax": -80 / 760}, 0),
        # Seven microseconds in all are less than 1 % of the run.
        (program(120e-6, 60e-6, 31.7e-6), 1, {"softmax": 80 / 760}, 0),
        (program(120e-6, 40e-6, launches=6), 6, {"gelu": 60 / 760}, 0),
        (program(144e-6, 60e-6, launches=6), 1, {"gemm": 96 / 760, "softmax": 80 / 760, "gelu": 60 / 760}, 1),
    ):
        comparison = compare([base] * runs, [new] * runs, "0", paired=True).comparison
        effects = {change.label: change.effect for change in changed_rows(comparison.kernels)}
        assert effects == pytest.approx(moves)
        said = whole_sentence(comparison)
        assert all(name in said for name in [*moves][:2]) and said.count("more often") == often


@each_row(("names", "grids"), [
    (["gemm"] * 24, range(100, 124)),
    ([f"triton_poi_fused_add_mul_{number}" for number in range(24)], [64] * 24),
])  # fmt: skip
def test_kernels_of_a_function_that_move_the_run_together_are_rows_and_named_by_it(
    names: list[str], grids: Sequence[int]
) -> None:
    """24 kernels of 15 µs, beside one of 640 µs: each takes 2 µs more, 0.2 % of the run, and all of them 4.8 %."""
    sides = []
    for time_s in (15e-6, 17e-6):
        kernels = [kernel(name, [time_s], grid=(grid, 1, 1)) for name, grid in zip(names, grids, strict=True)]
        sides.append(run(*kernels, kernel("softmax", [640e-6])))
    comparison = compare(sides[:1], sides[1:], "0").comparison
    moving, still = by_function(comparison.kernels)
    assert [change.label for change in still] == ["softmax"] and changed_rows(comparison.kernels) == moving
    assert {change.time.verdict for change in moving} == {"unclear"}
    assert sum(change.effect or 0.0 for change in moving) == pytest.approx(0.048)
    name = "gemm" if "gemm" in names else "triton_poi_fused_add_mul"
    assert f"{name} takes 360 µs → 408 µs" in whole_sentence(comparison)


def test_kernels_of_a_function_that_move_the_run_against_each_other_are_rows() -> None:
    """Of 350 µs, one kernel of a function takes 15 µs more and another one 15 µs less."""
    sides = []
    for times_s in ((100e-6, 100e-6), (115e-6, 85e-6)):
        kernels = [kernel("gemm", [time_s], grid=(grid, 1, 1)) for grid, time_s in enumerate(times_s, 100)]
        sides.append(run(*kernels, kernel("softmax", [150e-6])))
    rows = changed_rows(compare(sides[:1], sides[1:], "0").comparison.kernels)
    assert {side.demangled for row in rows for side in row.new} == {"gemm"}
    assert sorted(row.effect or 0.0 for row in rows) == pytest.approx([-15 / 350, 15 / 350])


def test_a_numbered_kernel_that_is_known_to_have_changed_is_named_with_its_number() -> None:
    base = run(*(kernel(f"loop_add_fusion_{number}", [10e-6]) for number in range(3)))
    times_s = {0: 11e-6, 1: 11e-6, 2: 30e-6, 3: 10e-6}
    new = run(*(kernel(f"loop_add_fusion_{number}", [time_s]) for number, time_s in times_s.items()))
    functions = by_function(compare([base], [new], "0").comparison.kernels)
    assert [[change.label for change in function] for function in functions] == [
        ["loop_add_fusion_2"], ["loop_add_fusion_3"], ["loop_add_fusion_0", "loop_add_fusion_1"]
    ]  # fmt: skip


def test_the_effects_of_kernels_add_up_to_the_change_of_the_time_of_a_step() -> None:
    # Of ten and thirty steps; "b" runs in every other one, and "c" is new.
    base = a_loop(10, 60e-6, kernel("b", [20e-6] * 5))
    new = a_loop(30, 50e-6, kernel("b", [20e-6] * 15), kernel("c", [1e-6] * 30))
    comparison = compare([base], [new], "0").comparison
    time = comparison.total[0]
    assert time.base is not None and time.new is not None
    assert sum(each.effect_s or 0.0 for each in comparison.kernels) == pytest.approx(time.new - time.base)
    (half,) = [each for each in comparison.kernels if each.label == "b"]
    assert [side.launches for side in (*half.base, *half.new)] == [0.5, 0.5] and half.effect_s == pytest.approx(0)


def test_the_parts_of_a_split_kernel_are_compared_by_step() -> None:
    base, new, _ = sides_of([a_loop(10, 60e-6)], [a_loop(20, 30e-6, kernel("b", [30e-6] * 120))])
    change = time_change(Pair("split", base.kernels, new.kernels))
    # 360 µs a step before, and 180 + 180 µs now.
    assert change.base_s == pytest.approx(360e-6) and change.ratio == pytest.approx(1.0)


def test_runs_are_compared_as_a_whole_unless_all_of_them_have_steps() -> None:
    without = run(kernel("a", [60e-6] * 60))
    survey = a_loop(10, 60e-6)
    surveyed = replace(survey.session, sources=(source(kind="torch-trace survey"),))
    for other in (without, replace(survey, session=surveyed)):
        comparison = compare([a_loop(10, 60e-6)], [other], "0").comparison
        assert [change.name for change in comparison.total][:2] == ["gpu-time", "launches"]
        assert [each.per for each in comparison.kernels] == ["run"]


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
