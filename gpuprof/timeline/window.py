"""The part of a trace that is judged: what a program does again and again, without what it does once. Pure.

With steps, that is the steps: every share then refers to a step. Three things are left out, each on a line of its own:
- what comes before the first step and after the last one: loading, compiling, saving;
- steps at the start that wait much longer than any later one: they load and compile, too;
- holes between steps in which the program does something other than in most of them, such as an evaluation. Steps that
  mark only a part of an iteration have usual holes between them, which belong to it: the GPU waits there for data.
A step on the GPU is what it launched: launching runs ahead, so that it begins and ends later there than on the CPU.
A single step is judged as it is, and so is what repeats nothing: nothing shows what would not come again.

Without steps, kernels that repeat show when the start-up is over. If the recording surely begins with the program, the
pauses of its start-up are known one by one instead, and marked in `pauses`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from statistics import median, median_low
from typing import NamedTuple

from gpuprof.model.field_types import JudgedPart
from gpuprof.model.groups import by_key
from gpuprof.timeline.intervals import TimeInterval, between, holes, is_within, length, merged
from gpuprof.timeline.steps import loop_of
from gpuprof.timeline.trace import Activity, ProgramStep, Trace

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
    """The time of a GPU that is judged, as intervals in order, and which part of the trace that is.

    `steps` are in it, and `warm_up_steps` come right before it, from `warm_up_s` on. `starts_s` is when the steps of
    one thread begin on the GPU.
    """

    intervals: Sequence[TimeInterval]
    part: JudgedPart
    steps: int = 0
    warm_up_steps: int = 0
    warm_up_s: float = inf
    starts_s: Sequence[float] = ()

    @property
    def start_s(self) -> float:
        """Return when it begins."""
        return self.intervals[0][0]

    @property
    def end_s(self) -> float:
        """Return when it ends."""
        return self.intervals[-1][1]

    def has(self, activity: Activity) -> bool:
        """Return whether an activity begins in it."""
        return is_within(activity.start_s, self.intervals)


class TracedGpu(NamedTuple):
    """What one GPU of a trace did: the trace and the GPU by their places, and all in the order of its start.

    `activities` are those of the part that is judged.
    """

    source: int
    ordinal: int
    every: Sequence[Activity]
    judged: Judged
    activities: Sequence[Activity]
    trace: Trace


def gpus_of(traces: Sequence[Trace]) -> Iterator[TracedGpu]:
    """Yield the GPUs of all traces that did something."""
    for source, trace in enumerate(traces):
        of_gpus = by_key((activity.device, activity) for activity in trace.activities)
        for ordinal, every in sorted(of_gpus.items()):
            judged = judged_part(trace, every)
            activities = [activity for activity in every if judged.has(activity)]
            yield TracedGpu(source, ordinal, every, judged, activities, trace)


def judged_part(trace: Trace, activities: Sequence[Activity]) -> Judged:
    """Return the part of a GPU's activities, in the order of their start, that is judged."""
    judged = _steps_judged(loop_of(trace), activities)
    if judged is None and not trace.from_start:
        judged = _repeating(activities)
    return judged or _judged(activities, "all")


def _judged(activities: Sequence[Activity], part: JudgedPart) -> Judged:
    end_s = max(activity.interval[1] for activity in activities)
    return Judged([(activities[0].start_s, end_s)], part)


def _steps_judged(steps: Sequence[ProgramStep], activities: Sequence[Activity]) -> Judged | None:
    """Return the steps without those that warm up; None if too much of the GPU's computing is outside of them."""
    if not steps:
        return None
    work = _Work(activities)
    warm_up = _warm_up_steps(steps, work)
    steady = steps[warm_up:]
    intervals = merged(work.on_gpu(*loop) for loop in _loops(steady, work))
    # Threads, such as those of several ranks, run their steps at the same time.
    count = max(Counter(step.thread for step in steady).values())
    warm_up_s = work.on_gpu(*steps[0].interval)[0] if warm_up else inf
    starts_s = [work.on_gpu(*step.interval)[0] for step in steady if step.thread == steady[0].thread]
    judged = Judged(intervals, "steps", count, warm_up, warm_up_s, starts_s)
    return judged if _is_enough(judged, activities) else None


class _Work:
    """What a GPU did, by when it was launched."""

    def __init__(self, activities: Sequence[Activity]) -> None:
        self._launched = sorted(activities, key=lambda activity: activity.launch_s)
        self._launches_s = [activity.launch_s for activity in self._launched]
        self._ended_s = _latest(activity.interval[1] for activity in self._launched)
        self._computed_s = _latest(own.interval[1] if own.computes else -inf for own in self._launched)
        self.computing = computing(activities)

    def launched(self, start_s: float, end_s: float) -> Sequence[Activity]:
        """Return what was launched from one moment on and before another one."""
        return self._launched[bisect_left(self._launches_s, start_s) : bisect_left(self._launches_s, end_s)]

    def on_gpu(self, start_s: float, end_s: float) -> TimeInterval:
        """Return when the GPU worked on launches between two moments, with the pauses before and after that.

        Work that was launched earlier may delay the begin, at most to the first kernel of these launches.
        """
        launched = self.launched(start_s, end_s)
        if not launched:
            return start_s, end_s
        first_s = min(activity.start_s for activity in launched)
        before = bisect_left(self._launches_s, start_s)
        begin_s = max(self._computed_s[before], min(first_s, max(start_s, self._ended_s[before])))
        kernel_s = min((activity.start_s for activity in launched if activity.computes), default=first_s)
        return min(begin_s, kernel_s), max(end_s, *(activity.interval[1] for activity in launched))


def _latest(ends_s: Iterable[float]) -> list[float]:
    """Return when the first n things have ended, for each n from 0 on."""
    return list(accumulate(ends_s, max, initial=-inf))


def _is_enough(judged: Judged, activities: Sequence[Activity]) -> bool:
    """Return whether a part has enough of the GPU's computing to be what the program is run for."""
    inside = [activity for activity in activities if judged.has(activity)]
    has_kernels = any(activity.runs_kernels for activity in inside)
    # Work that was launched before the recording belongs to steps before it.
    recorded = [activity for activity in activities if activity.launch_s >= 0]
    return has_kernels and sum(_computing_s(inside)) >= _LEAST_STEADY * sum(_computing_s(recorded))


def _warm_up_steps(steps: Sequence[ProgramStep], work: _Work) -> int:
    """Return how many of the first steps are for loading and compiling.

    The GPU computes nothing in them for much longer than any later step takes.
    """
    longest_s = [*accumulate((step.duration_s for step in reversed(steps)), max)][::-1]
    shortest_s, count = inf, 0
    for number, step in enumerate(steps[:-1], 1):
        waiting_s = step.duration_s - length(between(work.computing, *step.interval))
        shortest_s = min(shortest_s, waiting_s)
        if shortest_s >= max(LONG_PAUSE_S, FIRST_TIME * longest_s[number]):
            count = number
    return count


def _loops(steps: Sequence[ProgramStep], work: _Work) -> Iterator[TimeInterval]:
    """Yield from when to when steps follow each other, with usual holes between them at most.

    In an unusual one a further step would have had room, or kernels are launched, and they are in few other holes.
    """
    union = merged(step.interval for step in steps)
    pauses = holes(union)
    launches = [any(activity.runs_kernels for activity in work.launched(*pause)) for pause in pauses]
    # Without holes there is nothing to compare.
    longest_s = median_low([end - start for start, end in pauses] or [0.0]) + median(step.duration_s for step in steps)
    may_launch = 2 * sum(launches) >= len(launches)
    begin_s = union[0][0]
    for (start, end), has_kernels in zip(pauses, launches, strict=True):
        if end - start > longest_s or (has_kernels and not may_launch):
            yield begin_s, start
            begin_s = end
    yield begin_s, union[-1][1]


def _repeating(activities: Sequence[Activity]) -> Judged | None:
    """Return what comes after a start-up; None without one.

    It ends with the last kernel that is new and comes again. Until that kernel the GPU mostly computes nothing, and the
    longest such pause is of another kind than later ones.
    """
    last = _last_new(activities)
    if last is None:
        return None
    first_s, last_s, steady_s = (activities[place].start_s for place in (0, last, last + 1))
    before = merged([(first_s, first_s), *computing(activities[: last + 1])])
    later_s = _longest_s(between(computing(activities), last_s, inf))
    is_usual = _longest_s(before) < max(LONG_PAUSE_S, FIRST_TIME * later_s)
    if is_usual or 2 * length(between(before, first_s, steady_s)) >= steady_s - first_s:
        return None
    return _judged(activities[last + 1 :], "repetition")


def _last_new(activities: Sequence[Activity]) -> int | None:
    """Return the place of the last kernel that is new and comes again, if the GPU computes long enough after it.

    Kernels that are new later than that, or after rounds of others, are no start-up, such as those of an evaluation.
    """
    names = [activity.name if activity.runs_kernels else None for activity in activities]
    until_s = [*accumulate(_computing_s(activities), initial=0.0)]
    total_s = until_s[-1]
    last = None
    for name, (place, *later) in by_key(zip(names, range(len(names)), strict=True)).items():
        if name is None or not later:
            continue
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
    """Return whether each kernel that comes both up to `last` and from `place` on is also launched between the two."""
    return set(names[: last + 1]).intersection(names[place:]) - {None} <= set(names[last + 1 : place])


def _longest_s(union: Sequence[TimeInterval]) -> float:
    """Return the length of the longest pause between intervals."""
    return max((end - start for start, end in holes(union)), default=0.0)


def computing(activities: Iterable[Activity]) -> list[TimeInterval]:
    """Return when kernels compute; while one exchanges data with other GPUs, it may wait for them to start."""
    return merged(activity.interval for activity in activities if activity.computes)


def _computing_s(activities: Iterable[Activity]) -> list[float]:
    """Return for how long each activity computes."""
    return [(activity.duration_s or 0.0) * activity.computes for activity in activities]
