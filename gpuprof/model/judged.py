"""The part of a trace that is judged: the steps of the program, without what it does only when it starts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuprof.model.field_types import JudgedPart
from gpuprof.model.intervals import TimeInterval, length, merged
from gpuprof.model.steps import loop_of
from gpuprof.model.trace import KERNEL, Activity, ProgramStep, Trace

FIRST_TIME = 3.0
"""A pause before the first launch of a kernel that is so many times as long as the longest before its later ones is for
loading or compiling it. On an H100 PyTorch's first launches waited 1 to 85 ms, the later ones mostly 20 to 60 µs."""
LONG_PAUSE_S = 1e-3
"""In a longer pause the program did something else than launching."""
_LEAST_STEADY = 1 / 3
"""Of the time in which a GPU computes, what comes after a start-up at least: of a program that does all twice, half."""


class Judged(NamedTuple):
    """When the part of a GPU's time that is judged begins and ends, and which part that is."""

    start_s: float
    end_s: float
    part: JudgedPart

    def has(self, activity: Activity) -> bool:
        """Return whether an activity begins in it."""
        return self.start_s <= activity.start_s <= self.end_s


def judged_part(trace: Trace, activities: Sequence[Activity]) -> Judged:
    """Return the part of a GPU's activities, in the order of their start, that is judged.

    It is what the steps launched, if at least half of the computing is there, else all. Of a recording that may begin
    anywhere what comes before the kernels repeat is left out, too, if it is a start-up. In what gpuprof surveyed from
    its start the pauses of the start-up are known one by one, and marked where pauses are counted.
    """
    judged = _of_steps(loop_of(trace), activities) or _judged(activities, "all")
    if trace.from_start:
        return judged
    return _repeating([activity for activity in activities if judged.has(activity)]) or judged


def cut(intervals: Iterable[TimeInterval], start_s: float, end_s: float) -> list[TimeInterval]:
    """Return the union of the parts of intervals between two moments."""
    return merged(
        (max(start, start_s), min(end, end_s)) for start, end in intervals if end >= start_s and start <= end_s
    )


def _judged(activities: Sequence[Activity], part: JudgedPart) -> Judged:
    end_s = max(activity.interval[1] for activity in activities)
    return Judged(activities[0].start_s, end_s, part)


def _of_steps(steps: Sequence[ProgramStep], activities: Sequence[Activity]) -> Judged | None:
    """Return from the first to the last activity launched between the first step's start and the last one's end."""
    if not steps:
        return None
    start_s, end_s = steps[0].start_s, max(step.interval[1] for step in steps)
    launched = [activity for activity in activities if start_s <= activity.launch_s <= end_s]
    if not launched or 2 * _computing_s(launched) < _computing_s(activities):
        return None
    return _judged(launched, "steps")


def _repeating(activities: Sequence[Activity]) -> Judged | None:
    """Return what comes after a start-up, in which all kernels that come again ran once; None if there is none.

    Before it the GPU is mostly idle, and its longest pause is of another kind than the longest one afterwards.
    """
    start = _first_repeat(activities)
    if start is None:
        return None
    steady = _judged(activities[start:], "repetition")
    first_s, busy = activities[0].start_s, merged(activity.interval for activity in activities)
    longest_s = max(_pauses_s(busy, first_s, steady.start_s), default=0.0)
    later_s = max(_pauses_s(busy, steady.start_s, steady.end_s), default=0.0)
    is_idle = 2 * length(cut(busy, first_s, steady.start_s)) < steady.start_s - first_s
    return steady if is_idle and longest_s >= max(LONG_PAUSE_S, FIRST_TIME * later_s) else None


def _first_repeat(activities: Sequence[Activity]) -> int | None:
    """Return the place behind the last kernel that is new and comes again, if the GPU computes long enough after it.

    Kernels that are new later than that, such as those of an evaluation at the end, are no start-up. Of what is between
    it and the next kernel, copies that come after the longest pause go with the latter.
    """
    kernels = [place for place, activity in enumerate(activities) if activity.kind == KERNEL]
    launches = Counter(activities[place].name for place in kernels)
    left_s = total_s = _computing_s(activities)
    seen: set[str] = set()
    last = None
    for place, following in pairwise(kernels):
        name = activities[place].name
        left_s -= activities[place].duration_s or 0.0
        if left_s < _LEAST_STEADY * total_s:
            break
        if name not in seen and launches[name] > 1:
            last = (place, following)
        seen.add(name)
    if last is None:
        return None
    between = range(last[0] + 1, last[1] + 1)
    return max(between, key=lambda place: activities[place].start_s - activities[place - 1].interval[1])


def _pauses_s(busy: Sequence[TimeInterval], start_s: float, end_s: float) -> Iterator[float]:
    """Yield the lengths of the pauses that begin and end between two moments."""
    for (_, ended_s), (next_s, _) in pairwise(busy):
        if start_s <= ended_s and next_s <= end_s:
            yield next_s - ended_s


def _computing_s(activities: Iterable[Activity]) -> float:
    return sum(activity.duration_s or 0.0 for activity in activities if activity.computes)
