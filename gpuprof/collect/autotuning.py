"""Launches by which an autotuner chose a kernel: they are no work of the program, and most do not come again."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.model.groups import by_key
from gpuprof.model.recorded import Report
from gpuprof.model.set_up import AUTOTUNING_RANGE
from gpuprof.timeline.trace import TRY, Activity, Trace

_TRIES = re.compile(r"\bconv|_conv|convolution", re.IGNORECASE)
"""Operators whose library tries kernels at their first call: cuDNN, with `torch.backends.cudnn.benchmark`, some ten."""
_LATER_CALLS = 2
_FEWEST = 3
"""Kernels that later calls never launch: one or two may be what a first call sets up."""
_TIME = "gpu__time_duration.sum"


class Tries(NamedTuple):
    """How many launches were tries, and the time that they took, as far as it is known."""

    launches: int = 0
    time_s: float = 0.0


def without_tries(recorded: Report | Trace) -> tuple[Report | Trace, Tries]:
    """Return a recording whose kernels are those of the program, and what was left out.

    In a timeline the tries stay as time in which the GPU was busy. Where there is nothing but tries, nothing is left
    out: then trying kernels is what the program does.
    """
    if isinstance(recorded, Trace):
        return _of_trace(recorded)
    tries = [launch for launch in recorded.launches if _is_marked(launch.ranges)]
    own = tuple(launch for launch in recorded.launches if not _is_marked(launch.ranges))
    if not tries or not own:
        return recorded, Tries()
    time_s = sum(launch.metrics.number(_TIME) or 0.0 for launch in tries)
    return replace(recorded, launches=own), Tries(len(tries), time_s)


def _of_trace(trace: Trace) -> tuple[Trace, Tries]:
    kernels = [activity for activity in trace.activities if activity.is_kernel]
    tries = {id(kernel) for kernel in kernels if _is_marked(kernel.ranges)}
    tries.update(map(id, _of_first_calls(kernel for kernel in kernels if id(kernel) not in tries)))
    if not tries or len(tries) == len(kernels):
        return trace, Tries()
    activities = tuple(own._replace(kind=TRY) if id(own) in tries else own for own in trace.activities)
    time_s = sum(kernel.duration_s or 0.0 for kernel in kernels if id(kernel) in tries)
    return replace(trace, activities=activities), Tries(len(tries), time_s)


def has_timed_tries(trace: Trace) -> bool:
    """Return whether a trace without tries has some of Triton's or inductor's autotuners, which try by the clock."""
    return any(activity.kind == TRY and _is_marked(activity.ranges) for activity in trace.activities)


def _is_marked(ranges: Iterable[str]) -> bool:
    return any(AUTOTUNING_RANGE in name for name in ranges)


def _of_first_calls(kernels: Iterable[Activity]) -> Iterator[Activity]:
    """Yield the kernels that the first call of a convolution in a module launched, and that no later call launches."""
    for first, *later in by_key(_calls(kernels)).values():
        if len(later) >= _LATER_CALLS:
            chosen = {kernel.name for call in later for kernel in call}
            tries = [kernel for kernel in first if kernel.name not in chosen]
            if len({kernel.name for kernel in tries}) >= _FEWEST:
                yield from tries


def _calls(kernels: Iterable[Activity]) -> Iterator[tuple[Hashable, list[Activity]]]:
    """Yield each call of a convolution with its kernels: those launched one after the other by the same one."""
    ordered = sorted(kernels, key=lambda kernel: kernel.launch_s)
    for where, own in by_key(((kernel.process, kernel.device), kernel) for kernel in ordered).items():
        for (operator, ranges), call in groupby(own, key=lambda kernel: (kernel.operator, kernel.ranges)):
            if operator is not None and _TRIES.search(operator):
                yield (where, operator, ranges), list(call)
