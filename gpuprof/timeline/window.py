"""The part of a trace that is judged: the steps of the program, without what it does only when it starts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import inf
from typing import NamedTuple

from gpuprof.model.field_types import JudgedPart
from gpuprof.timeline.intervals import TimeInterval, length, merged
from gpuprof.timeline.steps import loop_of
from gpuprof.timeline.trace import Activity, ProgramStep, Trace, is_communication

FIRST_TIME = 3.0
"""A pause before the first launch of a kernel that is so many times as long as the longest before its later ones is for
loading or compiling it. On an H100 PyTorch's first launches waited 1 to 85 ms, the later ones mostly 20 to 60 µs."""
LONG_PAUSE_S = 1e-3
"""In a longer pause the program did something other than launching."""
_LEAST_STEADY = 1 / 3
"""A start-up leaves at least this part of the GPU's computing behind it; in a program that does all twice, half."""
_ROUNDS = 0.1
"""Once kernels have repeated, with none new, for this part of the GPU's computing, the start-up is over. Setting up
data on the GPU repeats kernels, too, but more briefly."""


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
    anywhere what comes before the kernels repeat is left out, too, if it is a start-up; a single step repeats nothing.
    In what gpuprof surveyed from its start the pauses of the start-up are known one by one, and marked where pauses are
    counted.
    """
    steps = loop_of(trace)
    launched = _launched(steps, activities)
    judged = _judged(launched, "steps") if launched else _judged(activities, "all")
    if launched:
        # What the GPU waits for before its first work belongs to the step.
        judged = judged._replace(start_s=min(judged.start_s, steps[0].start_s))
    if trace.from_start or (launched and len(steps) == 1):
        return judged
    return _repeating(launched or activities, judged.start_s) or judged


def cut(intervals: Iterable[TimeInterval], start_s: float, end_s: float) -> list[TimeInterval]:
    """Return the union of the parts of intervals between two moments."""
    return merged(
        (max(start, start_s), min(end, end_s)) for start, end in intervals if end >= start_s and start <= end_s
    )


def _judged(activities: Sequence[Activity], part: JudgedPart) -> Judged:
    end_s = max(activity.interval[1] for activity in activities)
    return Judged(activities[0].start_s, end_s, part)


def _launched(steps: Sequence[ProgramStep], activities: Sequence[Activity]) -> Sequence[Activity]:
    """Return what was launched between the first step's start and the last one's end; nothing if that is too little."""
    if not steps:
        return ()
    start_s, end_s = steps[0].start_s, max(step.interval[1] for step in steps)
    launched = [activity for activity in activities if start_s <= activity.launch_s <= end_s]
    if not launched or 2 * sum(_computing_s(launched)) < sum(_computing_s(activities)):
        return ()
    return launched


def _repeating(activities: Sequence[Activity], first_s: float) -> Judged | None:
    """Return what comes after a start-up, which begins at `first_s`; None without one.

    It ends with the last kernel that is new and comes again. Until that kernel the GPU mostly computes nothing, and the
    longest such pause is of another kind than later ones.
    """
    last = _last_new(activities)
    if last is None:
        return None
    last_s, steady_s = activities[last].start_s, activities[last + 1].start_s
    before = merged([(first_s, first_s), *_computing(activities[: last + 1])])
    longest_s = _longest_s(before, first_s, last_s)
    if longest_s < LONG_PAUSE_S or 2 * length(cut(before, first_s, steady_s)) >= steady_s - first_s:
        return None
    if longest_s < FIRST_TIME * _longest_s(merged(_computing(activities)), last_s, inf):
        return None
    return _judged(activities[last + 1 :], "repetition")


def _last_new(activities: Sequence[Activity]) -> int | None:
    """Return the place of the last kernel that is new and comes again, if the GPU computes long enough after it.

    Kernels that are new later than that, or after rounds of others, are no start-up, such as those of an evaluation.
    """
    names = [activity.name if activity.runs_kernels else None for activity in activities]
    launches = Counter(names)
    first = dict(zip(reversed(names), reversed(range(len(names))), strict=True))
    until_s = [*accumulate(_computing_s(activities), initial=0.0)]
    total_s = until_s[-1]
    last = None
    for place in sorted(place for name, place in first.items() if name is not None and launches[name] > 1):
        if total_s - until_s[place + 1] < _LEAST_STEADY * total_s:
            break
        if (
            last is not None
            and until_s[place] - until_s[last + 1] >= _ROUNDS * total_s
            and _are_rounds(names, last, place)
        ):
            break
        last = place
    return last


def _are_rounds(names: Sequence[str | None], last: int, place: int) -> bool:
    """Tell whether each kernel that comes both up to `last` and from `place` on is also launched between the two."""
    return set(names[: last + 1]).intersection(names[place:]) - {None} <= set(names[last + 1 : place])


def _longest_s(union: Sequence[TimeInterval], start_s: float, end_s: float) -> float:
    """Return the length of the longest pause that begins and ends between two moments."""
    pauses_s = (after - ended for (_, ended), (after, _) in pairwise(union) if start_s <= ended and after <= end_s)
    return max(pauses_s, default=0.0)


def _computing(activities: Sequence[Activity]) -> Iterable[TimeInterval]:
    """Return when kernels compute; while one exchanges data with other GPUs, it may wait for them to start."""
    exchanging = _exchanging(activities)
    return (activity.interval for activity in activities if activity.runs_kernels and activity.name not in exchanging)


def _computing_s(activities: Sequence[Activity]) -> list[float]:
    """Return for how long each activity computes."""
    exchanging = _exchanging(activities)
    return [
        activity.duration_s or 0.0 if activity.runs_kernels and activity.name not in exchanging else 0.0
        for activity in activities
    ]


def _exchanging(activities: Iterable[Activity]) -> set[str]:
    """Return the names of kernels that exchange data with other GPUs; each name is looked at once."""
    return {name for name in {activity.name for activity in activities} if is_communication(name)}
