"""How ncu is told of launches: by position, by few marked parts of the program, or by names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuprof.collect.annotate import Marked
from gpuprof.collect.command import Filters
from gpuprof.collect.launches import Seen
from gpuprof.collect.plan import PlannedKernel, make_plan
from gpuprof.collect.selection import Selection, by_marks, by_names, by_position, by_profiler, within
from gpuprof.collect.step_numbers import StepNumber
from gpuprof.collect.window import Window
from gpuprof.model.torch_ranges import MARK
from gpuprof.timeline.trace import is_communication
from tests.table import each_row
from tests.test_window import NCCL, named, placed, seen

STEP = StepNumber("optimizer", 3)
ADAM = "Optimizer.step#AdamW.step"


def part(unit: str, *kernels: str) -> list[Seen]:
    """What a part of the program launches; the part is in those that its name begins with."""
    outer = ("Net", *(unit.rsplit(".", dots)[0] for dots in range(unit.count("."), 0, -1)), unit) if unit else ()
    ranges = (ADAM,) if unit == "optimizer step" else (f"{unit}",) if unit.endswith(")") else outer
    return [seen(kernel, 1e-3, *ranges, "aten::op [8]") for kernel in kernels]


def kernels_of(launches: Sequence[Seen], wanted: str) -> tuple[PlannedKernel, ...]:
    """The planned kernels with these letters."""
    return make_plan([launch for launch in launches if launch.demangled[0] in wanted], coverage=1).kernels


def marked(launches: Sequence[Seen], wanted: str) -> Selection | None:
    return by_marks(
        placed(launches),
        kernels_of(launches, wanted),
        STEP,
        is_barred=lambda launch: is_communication(launch.demangled),
    )


PROGRAM = [
    *part("embed", "e", "x"),
    *part("layers.0.up", "a", "b"),
    *part("layers.0", "r"),
    *part("layers.1.up", "a", "b"),
    *part("layers.1", "r"),
    *part("", "l"),
    *part("layers.1.up (backward)", "c", "a"),
    *part("layers.0.up (backward)", "c", "d", "a"),
    *part("optimizer step", "o", "o", "o"),
]


@each_row(
    ("wanted", "units", "launches"),
    [
        ("e", ("embed",), 2),
        ("a", ("layers.0.up",), 2),
        # One part for both; the part that has most of what is wanted for its launches comes first.
        ("ab", ("layers.0.up",), 2),
        ("cd", ("layers.0.up (backward)",), 3),
        ("ed", ("embed", "layers.0.up (backward)"), 5),
        # What a layer launches itself is marked with all that is inside of the layer.
        ("r", ("layers.0",), 3),
        ("abr", ("layers.0",), 3),
        ("o", ("optimizer step",), 3),
        # What no part launches is not there.
        ("al", ("layers.0.up",), 2),
    ],
)
def test_few_parts_with_few_launches_are_marked(wanted: str, units: tuple[str, ...], launches: int) -> None:
    found = marked(PROGRAM, wanted)
    assert found is not None
    assert found.marks == Marked(3, "optimizer", units, "nvtx")
    assert (found.by, found.launches, found.filters) == ("marks", launches, Filters(ranges=(f"{MARK}/",)))
    assert {kernel.demangled[0] for kernel in found.kernels} == set(wanted)
    assert {shape.name for shape in found.shapes} >= set(wanted) - {"l"}


def test_ranges_of_the_program_that_are_named_as_modules_are_not_marked() -> None:
    inside = [seen("a", 1e-3, "Net", "attention", "scores"), seen("b", 1e-3, "Net", "attention")]
    launches = placed([*inside, seen("c", 1e-3, "Net")])
    kernels = kernels_of(launches, "a")
    for ours, unit in ((frozenset({"Net", "attention"}), "attention"), (None, "scores")):
        found = by_marks(launches, kernels, STEP, is_barred=lambda launch: False, ours=ours)
        assert found is not None and found.marks is not None and found.marks.units == (unit,)
    # An optimizer's step is torch's own range, which the hook goes along with.
    step = placed(part("optimizer step", "o"))
    found = by_marks(step, kernels_of(step, "o"), STEP, is_barred=lambda launch: False, ours=frozenset())
    assert found is not None and found.marks is not None and found.marks.units == ("optimizer step",)


def test_what_no_part_of_the_program_launches_cannot_be_marked() -> None:
    assert marked(PROGRAM, "l") is None
    assert marked([seen("a")], "a") is None


def test_a_part_with_a_launch_that_waits_for_a_peer_is_not_marked() -> None:
    program = [*part("layers.0.up", "a", "b"), *part("layers.0", NCCL), *part("layers.1", "a", NCCL, "b")]
    found = marked(program, "ab")
    assert found is not None and found.marks is not None and found.marks.units == ("layers.0.up",)
    assert marked(part("layers.1", "a", NCCL), "a") is None
    assert marked([*part("layers.1.up", "a"), *part("layers.1.up", NCCL)], "a") is None


def test_marks_may_start_and_stop_the_profiler_instead() -> None:
    found = marked(PROGRAM, "a")
    assert found is not None
    other = by_profiler(found)
    assert other.filters == Filters(profiler_calls="awaited")
    assert other.marks == Marked(3, "optimizer", ("layers.0.up",), "profiler")
    assert (other.launches, other.kernels, other.shapes) == (found.launches, found.kernels, found.shapes)


def test_the_step_of_a_module_is_named_by_it() -> None:
    found = by_marks(
        placed(PROGRAM), kernels_of(PROGRAM, "a"), StepNumber("module", 2, "Net"), is_barred=lambda launch: False
    )
    assert found is not None and found.marks == Marked(2, "module", ("layers.0.up",), "nvtx", "Net")


def test_all_of_a_window_is_selected_by_position() -> None:
    launches = [replace(launch, position=launch.position + 40) for launch in named("abc")]
    found = by_position(Window(40, tuple(launches)), kernels_of(launches, "ab"))
    assert found.filters == Filters(skip_before_match=40, launch_count=3)
    assert (found.by, found.launches, found.window and found.window.skip) == ("position", 3, 40)


def test_the_shortest_part_of_a_window_has_each_kernel() -> None:
    launches = named("abxxcabxx")
    window = Window(0, tuple(launches))
    found = within(window, kernels_of(launches, "bc"), is_barred=lambda launch: False)
    assert found is not None and found.filters == Filters(skip_before_match=4, launch_count=3)
    assert found.window is not None and [one.demangled[0] for one in found.window.launches] == ["c", "a", "b"]
    assert within(window, kernels_of(named("z"), "z"), is_barred=lambda launch: False) is None


def test_by_names_the_first_two_launches_come_in_any_case() -> None:
    plan = make_plan([*[seen("a", 3e-3)] * 6, *[seen("b", 1e-3)] * 6], coverage=1)
    (a, _) = plan.kernels
    assert by_names(plan, plan.kernels).filters.kernel_id == "::regex:^(a$|b$):^(2)$"
    found = by_names(plan, [a], at_first=[a])
    assert (found.by, found.launches, found.kernels, found.window) == ("names", 2, (a,), None)
    assert found.filters.kernel_id == "::regex:^(a$):^(1|2)$"
