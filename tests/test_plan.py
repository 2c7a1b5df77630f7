"""Which launches a profile takes: coverage, usual invocations, few distinct numbers, and filters that ncu accepts."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.collect.cost import forecast_of
from gpuprof.collect.events import ProfilePlanned
from gpuprof.collect.launches import Seen
from gpuprof.collect.plan import PlannedKernel, ProfilePlan, make_plan, not_seen_again
from gpuprof.collect.selection import by_names
from gpuprof.hardware.library import SpecLibrary
from gpuprof.words.plan import forecast_line, plan_lines
from tests.table import each_row


def seen(name: str, duration_s: float | None = 1e-3, grid: int = 1) -> Seen:
    """One launch of a kernel whose demangled name is its mangled one with brackets."""
    return Seen(name, f"{name}()", (grid, 1, 1), (128, 1, 1), duration_s)


def taken(plan: ProfilePlan) -> dict[str, tuple[int, ...]]:
    """The planned invocations by mangled name."""
    return {kernel.shape.name: kernel.invocations for kernel in plan.kernels}


def numbers_of(kernel: PlannedKernel) -> list[tuple[int, ...]]:
    """The numbers at which a kernel takes a usual time, of each size of its work."""
    return [size.numbers for size in kernel.usual]


def test_the_longest_kernels_that_reach_the_coverage_are_planned() -> None:
    # 60 + 30 of 100 are under 95 %, with the 8 they are 98 %.
    launches = [seen("a", 60e-3), seen("b", 30e-3), seen("c", 8e-3), seen("d", 2e-3)]
    assert list(taken(make_plan(launches))) == ["a", "b", "c"]
    assert list(taken(make_plan(launches, coverage=0.6))) == ["a"]
    assert make_plan(launches).coverage == pytest.approx(0.98)
    assert make_plan(launches).time_s == pytest.approx(0.1)


def test_a_kernel_counts_with_all_its_launches() -> None:
    launches = [seen("once", 5e-3), *[seen("often", 1e-3)] * 20]
    assert list(taken(make_plan(launches, coverage=0.5))) == ["often"]


def test_shapes_of_one_name_are_kernels_of_their_own() -> None:
    plan = make_plan([seen("k", 3e-3, grid=1), seen("k", 7e-3, grid=2)], coverage=0.5)
    assert [kernel.shape.grid for kernel in plan.kernels] == [(2, 1, 1)]
    # The filters know names and numbers only: the first launch of the other shape comes along.
    assert plan.profiled == 2


def test_a_number_that_many_kernels_have_serves_them_all() -> None:
    launches = [*[seen("a", 3e-3)] * 100, *[seen("b", 2e-3)] * 50, seen("c", 20e-3)]
    plan = make_plan(launches, coverage=1)
    assert taken(plan) == {"a": (2,), "b": (2,), "c": (1,)}
    # The first launches of a and b come along for c's.
    assert plan.profiled == 5


def test_a_launch_stands_for_the_others_by_its_time() -> None:
    # Medians without the first: 20 of a, 5 of b. Within a tenth are the launches 3, 4 and 5 of a, and 4 and 5 of b.
    a = [seen("a", time) for time in (20e-3, 35e-3, 20e-3, 21e-3, 19e-3)]
    b = [seen("b", time) for time in (9e-3, 4e-3, 9e-3, 5e-3, 5e-3)]
    plan = make_plan([*a, *b], coverage=1)
    assert [numbers_of(kernel) for kernel in plan.kernels] == [[(3, 4, 5)], [(4, 5)]]
    assert taken(plan) == {"a": (4,), "b": (4,)}
    # A cache that grows with every token: the middle one of those from 4 ms on, the first after a wide gap.
    grows = make_plan([seen("attention", 1e-3 * number) for number in range(1, 102)])
    assert taken(grows) == {"attention": (47,)}


def test_each_size_of_a_kernels_work_is_profiled() -> None:
    # The same kernel and grid in two layers of other depth: 121 and 33 µs, 16 and 8 times, as cuBLAS was seen to do.
    layers = [seen("gemm", 121e-6), seen("gemm", 33e-6), seen("gemm", 121e-6)] * 8
    (gemm,) = make_plan(layers).kernels
    # By number: the layers of depth 2048 are 1, 3, 4, 6, 7 …, the others 2, 5, 8 …
    deep, shallow = tuple(number for number in range(3, 25) if number % 3 != 2), tuple(range(2, 25, 3))
    assert numbers_of(gemm) == [deep, shallow]
    assert [size.time_s for size in gemm.usual] == pytest.approx([15 * 121e-6, 8 * 33e-6])
    assert gemm.invocations == (2, 3)
    # One more number is one more launch of every kernel: what takes under a twentieth of all is not worth it.
    others = [*layers, *[seen("other", 1e-3)] * 8]
    assert taken(make_plan(others)) == {"gemm": (3,), "other": (3,)}
    assert taken(make_plan(others, pattern=re.compile("gemm"))) == {"gemm": (2, 3)}
    # A launch that takes most of the time is a size of its own; one that something has held up for a while is not.
    assert taken(make_plan([seen("a", time) for time in (1e-3, 20e-3, 90e-3, 20e-3)])) == {"a": (2, 3)}
    assert taken(make_plan([seen("a", time) for time in (1e-3, 20e-3, 35e-3, 20e-3)])) == {"a": (2,)}
    # Neither is what takes little of the time.
    assert taken(make_plan([seen("a", 1e-6), *[seen("a", 1e-6)] * 9, *[seen("a", 1e-3)] * 9])) == {"a": (11,)}


def test_a_launch_whose_time_is_not_known_stands_for_none() -> None:
    plan = make_plan([seen("a", 1e-3), seen("a", None), seen("a", 3e-3)])
    assert numbers_of(plan.kernels[0]) == [(3,)]
    assert numbers_of(make_plan([seen("a", None)] * 3).kernels[0]) == [(2, 3)]


def test_launches_are_counted_apart_where_ncu_counts_them_apart() -> None:
    # Eight processes with ten launches each: number 2 comes eight times, and none above 10 ever.
    launches = [replace(seen("k"), counted_by=process) for process in range(8) for _ in range(10)]
    plan = make_plan(launches)
    assert (max(plan.kernels[0].usual[0].numbers), plan.kernels[0].counts) == (10, (10,) * 8)
    assert taken(plan) == {"k": (2,)}
    assert (plan.kernels[0].launches, plan.profiled) == (80, 8)
    # The series with most time speaks: four long launches, not ten short ones.
    launches = [replace(seen("k", 1e-3), counted_by="small")] * 10 + [replace(seen("k", 9e-3), counted_by="large")] * 4
    assert numbers_of(make_plan(launches).kernels[0]) == [(2, 3, 4)]


def test_a_number_is_usual_in_a_stream_and_in_all_together() -> None:
    # ncu counts either way. In each stream 2 and 3 take 5; of all together the launches 3 and 4, 5 and 6 do.
    times = (9e-3, 9e-3, 5e-3, 5e-3, 5e-3, 5e-3)
    launches = [replace(seen("k", time), counted_by=number % 2) for number, time in enumerate(times)]
    assert numbers_of(make_plan(launches).kernels[0]) == [(3,)]


def test_very_many_long_names_still_fit_a_command() -> None:
    names = [f"{number:03}{'x' * 900}" for number in range(160)]
    expression = make_plan([seen(name) for name in names], coverage=1.0).filters().kernel_id
    assert expression is not None and len(expression) < 128 * 1024
    matched = expression.split(":")[3]
    assert all(re.search(matched, name) for name in names)
    assert not re.search(matched, "200" + "x" * 900)


def test_samples_are_spread_over_the_usual_launches() -> None:
    assert taken(make_plan([seen("a")] * 8, samples=2)) == {"a": (2, 5)}
    assert taken(make_plan([seen("a")] * 2, samples=5)) == {"a": (2,)}


def test_kernels_that_wait_for_a_peer_are_left_out_and_named() -> None:
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    launches = [seen(name, 9e-3), seen("gemm", 1e-3)]
    plan = make_plan(launches)
    assert list(taken(plan)) == ["gemm"]
    assert [kernel.shape.name for kernel in plan.peers] == [name]
    assert plan.coverage == pytest.approx(0.1)
    assert any(name in line and "--peers" in line for line in plan_lines(plan, by_names(plan, plan.kernels)))
    assert name in taken(make_plan(launches, peers=True))


def test_a_pattern_limits_the_plan_but_not_what_the_run_took() -> None:
    plan = make_plan([seen("a", 1e-3), seen("b", 3e-3)], pattern=re.compile("^a"))
    assert list(taken(plan)) == ["a"]
    assert plan.coverage == pytest.approx(0.25)


def test_without_times_everything_is_planned() -> None:
    plan = make_plan([seen("a", None), seen("b", None)])
    assert list(taken(plan)) == ["a", "b"]
    assert plan.coverage is None


def test_the_filters_take_exact_names_only() -> None:
    expression = make_plan([seen("_Z1kIfEvPT_"), seen("a.b$c", 5e-3), seen("x:y<z>", 5e-3)]).filters().kernel_id
    assert expression is not None
    context, stream, operator, names, numbers = expression.split(":")
    assert (context, stream, operator, numbers) == ("", "", "regex", "^(1)$")
    assert all(re.search(names, name) for name in ("a.b$c", "_Z1kIfEvPT_", "x:y<z>"))
    assert not re.search(names, "a.bc") and not re.search(names, "_Z1kIfEvPT_2")


def test_what_was_planned_and_did_not_come_again_is_known() -> None:
    plan = make_plan([seen("a"), seen("b", grid=4)])
    assert [kernel.shape.name for kernel in not_seen_again(plan.kernels, [seen("a"), seen("b", grid=8)])] == ["b"]
    assert not_seen_again(plan.kernels, [seen("a"), seen("b", grid=4)]) == ()


LAUNCHES = st.lists(
    st.builds(seen, st.sampled_from("abcdef"), st.none() | st.floats(1e-9, 1.0), st.integers(1, 3)),
    min_size=1,
    max_size=60,
)


@given(LAUNCHES, st.floats(0.01, 1.0), st.integers(1, 4))
def test_any_plan_covers_what_it_must_with_launches_that_exist(
    launches: list[Seen], coverage: float, samples: int
) -> None:
    plan = make_plan(launches, coverage=coverage, samples=samples)
    counts = {shape: len(list(ones)) for shape, ones in groupby(sorted((one.symbol, one.grid) for one in launches))}
    assert plan.kernels
    assert plan.coverage is None or plan.coverage >= coverage - 1e-6
    for kernel in plan.kernels:
        count = counts[kernel.shape.name, kernel.shape.grid]
        assert kernel.launches == count
        assert 1 <= len(kernel.invocations) <= samples * len(kernel.usual)
        assert all(min(2, count) <= number <= count for number in kernel.invocations)
        assert set(kernel.invocations) <= {number for size in kernel.usual for number in size.numbers}
        assert set(kernel.invocations) & set(kernel.usual[0].numbers)
    assert sum(len(kernel.invocations) for kernel in plan.kernels) <= plan.profiled <= len(launches)


@given(LAUNCHES)
def test_what_the_filters_let_through_is_what_the_plan_says(launches: list[Seen]) -> None:
    plan = make_plan(launches)
    _, _, _, names, numbers = (plan.filters().kernel_id or "").split(":")
    count: dict[tuple[object, ...], int] = {}
    through = 0
    for one in launches:
        shape = (one.symbol, one.grid, one.block)
        count[shape] = count.get(shape, 0) + 1
        through += bool(re.search(names, one.symbol or "") and re.search(numbers, str(count[shape])))
    assert through == plan.profiled


def operated(name: str, operator: str, duration_s: float) -> Seen:
    """One launch of a kernel by an operator."""
    return replace(seen(name, duration_s), ranges=("Model", operator))


def test_products_that_share_name_and_grid_are_kernels_of_their_own_however_alike_their_times() -> None:
    # As on an H100: two sizes of one GEMM kernel in one grid, 91 and 73 µs, one after the other.
    deep, wide = "aten::mm [2048, 2048]×[2048, 512]", "aten::mm [2048, 1536]×[1536, 512]"
    plan = make_plan([operated("gemm", deep, 91e-6), operated("gemm", wide, 73e-6)] * 8, coverage=1)
    # By number, all launches of the name and grid counted: the deep ones are 1, 3, 5 …, and the first is no choice.
    assert [(kernel.shape.operator, kernel.launches, kernel.usual[0].numbers) for kernel in plan.kernels] == [
        (deep, 8, tuple(range(3, 16, 2))),
        (wide, 8, tuple(range(4, 17, 2))),
    ]
    # ncu knows no operators: both numbers of the name are let through once.
    assert plan.profiled == len({*plan.kernels[0].invocations, *plan.kernels[1].invocations}) == 2
    assert sum("of 16" in line for line in plan_lines(plan, by_names(plan, plan.kernels))) == 2


def test_a_launch_of_another_operator_is_not_what_was_planned() -> None:
    plan = make_plan([operated("gemm", "aten::mm [64, 64]×[64, 64]", 1e-3)])
    assert not_seen_again(plan.kernels, [operated("gemm", "aten::mm [64, 32]×[32, 64]", 1e-3)]) == plan.kernels
    assert not_seen_again(plan.kernels, [operated("gemm", "aten::mm [64, 64]×[64, 64]", 1e-3)]) == ()
    # Where one side knows no operator, or no shapes, the rest decides.
    assert not_seen_again(plan.kernels, [seen("gemm")]) == ()
    assert not_seen_again(plan.kernels, [operated("gemm", "aten::mm", 1e-3)]) == ()
    assert not_seen_again(plan.kernels, [operated("gemm", "aten::bmm", 1e-3)]) == plan.kernels


def test_more_is_asked_of_the_longest_kernels_and_of_what_takes_a_share() -> None:
    launches = [seen(f"k{number}", 1e-3) for number in range(20)]
    assert len(make_plan([*launches, seen("long", 80e-3)], coverage=1).worth_asking) == 21
    assert len(make_plan([*launches, seen("long", 180e-3)], coverage=1).worth_asking) == 8


def test_what_profiling_will_take_is_forecast_in_seconds() -> None:
    # Three launches of each of two kernels, of 1 s and 2 s. Limits on sm_80: 5 passes, and one more by ncu; answers: 7,
    # and one more by ncu, and one for opcodes and samples.
    plan, arch = make_plan([seen("a", 1.0), seen("b", 2.0)] * 3, coverage=1), SpecLibrary().arch("sm_80")
    assert arch is not None
    chosen = by_names(plan, plan.kernels)
    forecast = forecast_of(ProfilePlanned(plan, arch, "diagnose", 8.0, chosen, chosen))
    assert [(run.launches, run.passes) for run in forecast.runs] == [(2, 6), (2, 9)]
    assert [run.seconds for run in forecast.runs] == pytest.approx(
        [8 + 2.3 + 6 * (2 * 0.028 + 3), 8 + 2.3 + 9 * (2 * 0.028 + 3)]
    )
    assert forecast.full_s == pytest.approx(8 + 2.3 + 38 * (6 * 0.055 + 9))


@each_row(("arch", "counters", "stages", "program_s", "runs", "says"), [
    ("sm_80", "diagnose", 2, 8.0, [(6, None), (9, None)], "the program's own time twice (8.00 s in the survey)"),
    ("sm_90", "diagnose", 2, 8.0, [(3, None), (9, 16)], "at most 2 launches × about 9 passes (16 with counters"),
    ("sm_90", "roofline", 2, 8.0, [(3, None), (3, 9)], "(9 with counters of tensor work); this"),
    ("sm_90", "diagnose", 1, 8.0, [(18, None)], "; this includes the program's own time once (8.00 s in the survey)"),
    ("sm_90", "full", 1, 8.0, [(38, None)], "2 launches × about 38 passes; this includes the program's own time once"),
    ("sm_90", "diagnose", 2, None, [(3, None), (9, 16)], "more, plus the program's own time twice, by the"),
    ("sm_90", "full", 1, None, [(38, None)], "more, plus the program's own time once, by the"),
])  # fmt: skip
def test_a_forecast_tells_time_passes_and_how_often_the_program_runs(
    arch: str, counters: str, stages: int, program_s: float | None, runs: list[tuple[int, int | None]], says: str
) -> None:
    plan, spec = make_plan([seen("a", 1.0), seen("b", 2.0)] * 3, coverage=1), SpecLibrary().arch(arch)
    assert spec is not None
    chosen = by_names(plan, plan.kernels)
    planned = ProfilePlanned(plan, spec, counters, program_s, chosen, chosen if stages == 2 else None)
    forecast, line = forecast_of(planned), forecast_line(planned)
    assert [(run.passes, run.tensor_passes) for run in forecast.runs] == runs
    took = f"{forecast.seconds:.0f} s" if forecast.seconds < 100 else f"{forecast.seconds / 60:.0f} min"
    assert line.startswith(f"forecast: about {took} more") and says in line
    assert ("ncu --set full of all" in line) == (program_s is not None)


@given(LAUNCHES)
def test_a_plan_is_told_in_lines_without_control_characters(launches: list[Seen]) -> None:
    plan = make_plan(launches)
    lines = list(plan_lines(plan, by_names(plan, plan.kernels)))
    assert lines[0].startswith("survey: ") and lines[1].startswith("plan: ")
    assert all(line.isprintable() for line in lines)
