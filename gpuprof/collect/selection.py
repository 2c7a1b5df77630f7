"""Ways in which ncu selects launches: by position, by marks that our hook sets, or by names and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpuprof.collect.annotate import Marked
from gpuprof.collect.command import Filters
from gpuprof.collect.launches import LaunchShape, Seen
from gpuprof.collect.plan import PlannedKernel, ProfilePlan
from gpuprof.collect.step_numbers import StepNumber
from gpuprof.collect.window import Window, choose_window
from gpuprof.model.labels import short_name
from gpuprof.model.torch_ranges import MARK, OPTIMIZER_UNIT, unit_of

_NVTX = f"{MARK}/"


@dataclass(frozen=True, slots=True)
class Selection:
    """Launches to profile: the filters for ncu, how many launches these should let through, and of which kernels.

    `time_s` is the time of the launches by themselves, as far as it is known. `shapes` are those of the launches, if
    these are known one by one. A selection by position has the `window` that must come, in its order. One by marks has
    the `marks` that our hook is to set.
    """

    filters: Filters
    launches: int
    kernels: tuple[PlannedKernel, ...]
    by: Literal["position", "marks", "names"]
    time_s: float = 0.0
    shapes: frozenset[LaunchShape] = frozenset()
    window: Window | None = None
    marks: Marked | None = None


def by_position(window: Window, kernels: Sequence[PlannedKernel]) -> Selection:
    """Select all launches of a window."""
    count = len(window.launches)
    filters = Filters(skip_before_match=window.skip, launch_count=count)
    return Selection(filters, count, tuple(kernels), "position", *_known_of(window.launches), window)


def without_peers(selection: Selection, peers: Iterable[str]) -> Selection:
    """Select no kernel that waits for another rank, even if the program launches otherwise than in the survey.

    `peers` are the names of those in the survey. One that waits never ends if it is profiled alone. The expression
    matches all kernels whose names begin with none of these.
    """
    functions = sorted({re.sub(r"\W", ".", short_name(name)) for name in peers})
    if not functions or selection.by == "names":
        return selection
    filters = replace(selection.filters, kernel=f"^(?!{'|'.join(functions)}).", name_base="function")
    return replace(selection, filters=filters)


def by_names(
    plan: ProfilePlan, kernels: Sequence[PlannedKernel], at_first: Collection[PlannedKernel] = ()
) -> Selection:
    """Select kernels by names and launch numbers; those of `at_first` by the first two numbers, which always come."""
    part = plan.only(kernels, at_first)
    time_s = sum(kernel.time_s / kernel.launches * len(kernel.invocations) for kernel in part.kernels)
    return Selection(part.filters(), part.profiled, tuple(kernels), "names", time_s)


def within(window: Window, kernels: Sequence[PlannedKernel], *, is_barred: Callable[[Seen], bool]) -> Selection | None:
    """Select the shortest part of a window that still has every one of these kernels that the window has."""
    most = len(window.launches)
    part = choose_window(window.launches, kernels, steps=(), is_barred=is_barred, most=most, whole=False)
    return by_position(part, kernels) if part is not None else None


def by_marks(
    launches: Sequence[Seen],
    kernels: Sequence[PlannedKernel],
    step: StepNumber,
    *,
    is_barred: Callable[[Seen], bool],
    ours: frozenset[str] | None = None,
) -> Selection | None:
    """Select the modules, their backward passes and the optimizer's step that launch kernels, in one step.

    `launches` are all of that step. Our hook marks the parts in the program, by a range, with all that is inside: a
    part with a launch that must not be profiled (`is_barred`) is not chosen. None if no part launches a kernel. `ours`
    are the ranges that the hook opened in the survey, if known: others may look like modules, and it cannot mark them.
    """
    around = [_units_around(seen) for seen in launches]
    if ours is not None:
        around = [units & (ours | {OPTIMIZER_UNIT}) for units in around]
    barred = frozenset().union(*(units for seen, units in zip(launches, around, strict=True) if is_barred(seen)))
    inside: dict[str, list[LaunchShape]] = {}
    for seen, units in zip(launches, around, strict=True):
        for unit in units - barred:
            inside.setdefault(unit, []).append(seen.shape)
    chosen = _few_units(inside, kernels)
    if not chosen:
        return None
    parts = Marked(step.number, step.by, tuple(sorted(chosen)), "nvtx", module=step.module)
    taken = [seen for seen, units in zip(launches, around, strict=True) if units & chosen]
    filters = Filters(ranges=(_NVTX,))
    return Selection(filters, len(taken), tuple(kernels), "marks", *_known_of(taken), marks=parts)


def by_profiler(selection: Selection) -> Selection:
    """Select marked parts by cudaProfilerStart and cudaProfilerStop around them instead of a range."""
    assert selection.marks is not None
    marks = replace(selection.marks, with_="profiler")
    return replace(selection, filters=replace(selection.filters, ranges=(), profiler_calls="awaited"), marks=marks)


def _known_of(launches: Sequence[Seen]) -> tuple[float, frozenset[LaunchShape]]:
    """Return the time of launches, as far as it is known, and their shapes."""
    return sum(seen.duration_s or 0.0 for seen in launches), frozenset(seen.shape for seen in launches)


def _units_around(seen: Seen) -> frozenset[str]:
    """Return the parts of the program around a launch, of those that can be chosen."""
    return frozenset(unit_of(seen.ranges[:end]) for end in range(1, len(seen.ranges) + 1)) - {""}


def _few_units(inside: Mapping[str, Sequence[LaunchShape]], kernels: Sequence[PlannedKernel]) -> frozenset[str]:
    """Return parts of the program that together launch the kernels, as far as any part does, with few other launches.

    Taken first is the part with the most kernels per launch, of equal parts the larger, then the next for what is left.
    """
    left = {kernel.shape for kernel in kernels}
    wanted = {unit: left.intersection(shapes) for unit, shapes in inside.items()}
    units: set[str] = set()

    def worth(unit: str) -> tuple[float, int]:
        found = len(wanted[unit] & left)
        return found / len(inside[unit]), found

    while True:
        unit = max(sorted(inside), key=worth, default="")
        found = wanted.get(unit, set()) & left
        if not found:
            return frozenset(units)
        left -= found
        units.add(unit)
