"""Launches by which an autotuner chose a kernel: they are no work of the program, and most do not come again."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.model.recorded import Report
from gpuprof.model.set_up import AUTOTUNING_RANGE
from gpuprof.timeline.trace import KERNEL, TRY, Activity, Trace

_TRIES = re.compile(r"\bconv|_conv|convolution", re.IGNORECASE)
"""Operators whose library tries kernels at their first call: cuDNN, with `torch.backends.cudnn.benchmark`, some ten."""
_LATER_CALLS = 2
_FEWEST = 3
"""Kernels that later calls never launch: one or two may be what a first call sets up."""
_TIME = "gpu__time_duration.sum"


class Tries(NamedTuple):
    """How many launches were tries, and the time that they took, as far as it is known."""

    launches: int
    time_s: float


def without_tries(recorded: Report | Trace) -> tuple[Report | Trace, Tries]:
    """Return a recording whose kernels are those of the program, and what was left out.

    In a timeline the tries stay as time in which the GPU was busy. Where there is nothing but tries, nothing is left
    out: then trying kernels is what the program does.
    """
    if isinstance(recorded, Trace):
        return _of_trace(recorded)
    tries = [launch for launch in recorded.launches if _is_marked(launch.ranges)]
    if not tries or len(tries) == len(recorded.launches):
        return recorded, Tries(0, 0.0)
    own = tuple(launch for launch in recorded.launches if not _is_marked(launch.ranges))
    time_s = sum(launch.metrics.number(_TIME) or 0.0 for launch in tries)
    return replace(recorded, launches=own), Tries(len(tries), time_s)


def _of_trace(trace: Trace) -> tuple[Trace, Tries]:
    kernels = [place for place, activity in enumerate(trace.activities) if activity.kind == KERNEL]
    tries = {place for place in kernels if _is_marked(trace.activities[place].ranges)}
    tries.update(_of_first_calls(trace.activities, [place for place in kernels if place not in tries]))
    if not tries or len(tries) == len(kernels):
        return trace, Tries(0, 0.0)
    activities = tuple(
        activity._replace(kind=TRY) if place in tries else activity for place, activity in enumerate(trace.activities)
    )
    time_s = sum(trace.activities[place].duration_s or 0.0 for place in tries)
    return replace(trace, activities=activities), Tries(len(tries), time_s)


def has_timed_tries(trace: Trace) -> bool:
    """Tell whether a trace without tries has some of Triton's or inductor's autotuners, which try by the clock."""
    return any(activity.kind == TRY and _is_marked(activity.ranges) for activity in trace.activities)


def _is_marked(ranges: Iterable[str]) -> bool:
    return any(AUTOTUNING_RANGE in name for name in ranges)


def _of_first_calls(activities: Sequence[Activity], kernels: Iterable[int]) -> Iterator[int]:
    """Yield the kernels that the first call of a convolution in a module launched, and that no later call launches."""
    for first, *later in _calls(activities, kernels).values():
        if len(later) >= _LATER_CALLS:
            chosen = {activities[place].name for call in later for place in call}
            tries = [place for place in first if activities[place].name not in chosen]
            if len({activities[place].name for place in tries}) >= _FEWEST:
                yield from tries


def _calls(activities: Sequence[Activity], kernels: Iterable[int]) -> dict[Hashable, list[list[int]]]:
    """Return the kernels of each call of a convolution: those launched one after the other by the same one."""
    calls: dict[Hashable, list[list[int]]] = {}
    before: dict[Hashable, Hashable] = {}
    for place in sorted(kernels, key=lambda place: activities[place].launch_s):
        activity = activities[place]
        where = (activity.process, activity.device)
        what = (where, activity.operator, activity.ranges)
        tries = activity.operator is not None and _TRIES.search(activity.operator) is not None
        if tries and before.get(where) == what:
            calls[what][-1].append(place)
        elif tries:
            calls.setdefault(what, []).append([place])
        before[where] = what
    return calls
