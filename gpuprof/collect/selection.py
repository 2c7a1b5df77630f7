"""Ways in which ncu selects launches: by position, by marks that our hook sets, or by names and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpuprof.collect.annotate import Marked
from gpuprof.collect.command import Filters
from gpuprof.collect.launches import LaunchShape, Seen
from gpuprof.collect.plan import PlannedKernel, ProfilePlan
from gpuprof.collect.window import Window, choose_window
from gpuprof.model.steps import StepNumber
from gpuprof.model.torch_ranges import MARK, unit_of

_NVTX = f"{MARK}/"


@dataclass(frozen=True, slots=True)
class Selection:
    """Launches to profile: the filters for ncu, how many launches these should let through, and of which kernels.

    A selection by position has the `window` that must come. One by marks has the `marks` that our hook is to set.
    """

    filters: Filters
    launches: int
    kernels: tuple[PlannedKernel, ...]
    by: Literal["position", "marks", "names"]
    window: Window | None = None
    marks: Marked | None = None


def by_position(window: Window, kernels: Sequence[PlannedKernel]) -> Selection:
    """Select all launches of a window."""
    count = len(window.launches)
    filters = Filters(skip_before_match=window.skip, launch_count=count)
    return Selection(filters, count, tuple(kernels), "position", window)


def by_names(plan: ProfilePlan, kernels: Sequence[PlannedKernel], *, at_first: bool = False) -> Selection:
    """Select kernels by names and launch numbers; `at_first` by the first two numbers, which always come."""
    part = plan.only(kernels, at_first=at_first)
    return Selection(part.filters(), part.profiled, tuple(kernels), "names")


def within(window: Window, kernels: Sequence[PlannedKernel], *, is_barred: Callable[[Seen], bool]) -> Selection | None:
    """Select the shortest part of a window that still has every one of these kernels that the window has."""
    most = len(window.launches)
    part = choose_window(window.launches, kernels, steps=(), is_barred=is_barred, most=most, whole=False)
    return by_position(part, kernels) if part is not None else None


def by_marks(window: Window, kernels: Sequence[PlannedKernel], step: StepNumber) -> Selection | None:
    """Select the modules, their backward passes and the optimizer's step that launch kernels, in one step.

    Our hook marks them in the program, by a range. None if no module launches any of the kernels.
    """
    units = _units_of(window, kernels)
    if not units:
        return None
    parts = Marked(step.number, step.by, tuple(sorted(units)), "nvtx", module=step.module)
    count = sum(unit_of(seen.ranges) in units for seen in window.launches)
    return Selection(Filters(ranges=(_NVTX,)), count, tuple(kernels), "marks", marks=parts)


def by_profiler(selection: Selection) -> Selection:
    """Select marked parts by cudaProfilerStart and cudaProfilerStop around them instead of a range."""
    assert selection.marks is not None
    marks = replace(selection.marks, with_="profiler")
    return replace(selection, filters=Filters(from_start=False), marks=marks)


def _units_of(window: Window, kernels: Sequence[PlannedKernel]) -> frozenset[str]:
    """Return parts of the program that together launch the kernels, as far as any part does, with few other launches.

    Taken first is the part with the most kernels per launch, then the one with the most of those that are left.
    """
    left = {kernel.shape for kernel in kernels}
    launched: dict[str, list[LaunchShape]] = {}
    for seen in window.launches:
        launched.setdefault(unit_of(seen.ranges), []).append(seen.shape)
    launched.pop("", None)
    units = set()
    while launched:
        unit = max(launched, key=lambda name: len(left.intersection(launched[name])) / len(launched[name]))
        found = left.intersection(launched.pop(unit))
        if not found:
            break
        left -= found
        units.add(unit)
    return frozenset(units)
