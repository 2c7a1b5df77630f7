"""Pauses of a GPU: what ended each, and whether the program started up, waited, or replayed a graph. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuprof.model.field_types import PauseCause
from gpuprof.model.groups import by_key, percentile, summed
from gpuprof.model.session import Gaps, LongPause, OperatorWait
from gpuprof.timeline.intervals import between, length, merged
from gpuprof.timeline.trace import Activity, HostWait, movement
from gpuprof.timeline.window import FIRST_TIME, LONG_PAUSE_S, TracedGpu

SHORT_PAUSE_S = 20e-6
"""A shorter pause is about what launching takes."""
_FIRST_LAUNCH_S = 50e-6
"""After a wait nothing is launched ahead. PyTorch on an H100 then launched about so late while it was profiled, a C
program on a GP100 after 14 to 20 µs. What takes longer is other work of the CPU."""
_OPERATORS = 3
_CLOCKS_S = 1e-6
"""Old traces have whole microseconds. On an H100 a wait ended 3 µs and more after what it waited for."""
_ROUNDING_S = 0.5e-9
"""Times are whole nanoseconds: a shorter pause is a rounding error of their sums."""


class Pause(NamedTuple):
    """A time in which a GPU did nothing, what ended it, and the first kernel from then on.

    `length_s` is without `profiler_s`, in which the profiler was at work. `unsure` says that the last thing before it,
    on any stream, has no time: it may have filled the pause. `start_up` says that it does not come again, however long
    the program runs. `waited` is the call in which the program waited for the GPU when it began, so that nothing was
    launched meanwhile; `waited_s` is as much of the pause as that explains. `in_graph` says that what it follows and
    what ends it are nodes of one launch of a CUDA graph: the CPU had launched both before.
    """

    start_s: float
    length_s: float
    end: Activity
    kernel: Activity | None
    unsure: bool
    waited: HostWait | None
    in_graph: bool = False
    start_up: bool = False
    profiler_s: float = 0.0

    @property
    def queued_s(self) -> float:
        """Return its time after the next launch had returned, if longer than launching takes: the GPU waited then."""
        queued_s = min(self.length_s, self.end.queued_s or 0.0)
        is_latency = queued_s < SHORT_PAUSE_S or self.end.start_s <= self.start_s
        return 0.0 if is_latency or self.in_graph else queued_s

    @property
    def waited_s(self) -> float:
        """Return its time up to the first launch that a program makes directly after its wait; 0 without a wait."""
        if self.waited is None:
            return 0.0
        return min(self.length_s, max(0.0, self.waited.end_s + _FIRST_LAUNCH_S - self.start_s))


def judged_pauses(gpu: TracedGpu) -> Iterator[Pause]:
    """Yield the parts of a GPU's pauses that are judged, each without the time in which the profiler was at work."""
    overhead = merged(gpu.trace.overhead)
    for pause in _pauses(gpu):
        for begin_s, end_s in between(gpu.judged.intervals, pause.start_s, pause.start_s + pause.length_s):
            profiler_s = length(between(overhead, begin_s, end_s))
            length_s = end_s - begin_s - profiler_s
            unsure = pause.unsure or gpu.trace.incomplete
            if end_s - begin_s > _ROUNDING_S:
                yield pause._replace(start_s=begin_s, length_s=length_s, profiler_s=profiler_s, unsure=unsure)


def _pauses(gpu: TracedGpu) -> Iterator[Pause]:
    """Yield the pauses of a GPU up to the end of the judged part.

    One before the end of the last step ends, as far as is known, with what begins a step. Only in a recording that
    begins with the program is anything taken for a start-up.
    """
    waits = gpu.trace.host_waits or ()
    pauses: list[Pause] = []
    last = gpu.every[0]
    end = min(gpu.judged.start_s, last.start_s)
    untimed: set[int | None] = set()
    kernels = [activity for activity in gpu.every if activity.is_kernel]
    upcoming = iter(kernels)
    kernel = next(upcoming, None)
    for activity in gpu.every:
        if activity.start_s > end + _ROUNDING_S:
            in_graph = activity.graph_launch is not None and activity.graph_launch == last.graph_launch
            waited = None if in_graph else _wait_at(waits, end, activity.start_s, activity.process)
            pause = Pause(end, activity.start_s - end, activity, kernel, bool(untimed), waited, in_graph)
            pauses.append(pause)
            untimed.clear()
        # What comes next on a stream begins after the one before has ended.
        if activity.duration_s is None:
            untimed.add(activity.stream)
        else:
            untimed.discard(activity.stream)
        ended = activity.interval[1]
        if ended >= end:
            end, last = ended, activity
        if activity is kernel:
            kernel = next(upcoming, None)
    loading = _loading_pauses(kernels, pauses) if gpu.trace.from_start else {}
    for pause in pauses:
        yield pause._replace(start_up=pause.length_s >= loading.get(id(pause.kernel), math.inf))
    end_s = gpu.judged.end_s
    first = gpu.activities[0]
    if end_s > end + _ROUNDING_S:
        kernel = next((own for own in gpu.activities if own.is_kernel and own.computes), None)
        waited = _wait_at(waits, end, end_s, first.process)
        yield Pause(end, end_s - end, first, kernel, bool(untimed), waited)


def _wait_at(waits: Sequence[HostWait], start_s: float, end_s: float, process: int | None) -> HostWait | None:
    """Return the call in which a process, None for any, waited when a pause began, and no longer when it ended.

    A call that lasts longer than the pause waits for something else: another thread has launched.
    """
    at = bisect_left(waits, start_s - _CLOCKS_S, key=lambda wait: wait.end_s)
    while at < len(waits) and waits[at].end_s <= end_s:
        if waits[at].start_s <= start_s and process in (None, waits[at].process):
            return waits[at]
        at += 1
    return None


def _loading_pauses(kernels: Sequence[Activity], pauses: Sequence[Pause]) -> dict[int, float]:
    """Return, for the identity of each kernel's first launch, from how long on a pause before it is for loading it.

    Before the very first kernel every pause is. Of one that is launched once nothing is known but when: before any
    kernel comes again, the program sets up.
    """
    launches = by_key((kernel.name, place) for place, kernel in enumerate(kernels)).values()
    before = summed((id(pause.kernel), pause.length_s) for pause in pauses)
    again = min((places[1] for places in launches if len(places) > 1), default=0)
    shortest: dict[int, float] = {}
    for first, *later in launches:
        if first == 0:
            shortest_s = 0.0
        elif later:
            longest_s = max(before.get(id(kernels[place]), 0.0) for place in later)
            shortest_s = max(SHORT_PAUSE_S, FIRST_TIME * longest_s)
        else:
            shortest_s = LONG_PAUSE_S if first < again else math.inf
        shortest[id(kernels[first])] = shortest_s
    return shortest


def gaps_of(pauses: Sequence[Pause], *, knows_waits: bool) -> Gaps | None:
    """Return the sums over pauses; None without any."""
    if not pauses:
        return None
    counted = [pause for pause in pauses if not pause.start_up and pause.length_s > _ROUNDING_S]
    lengths = sorted(pause.length_s for pause in counted)
    outside = [pause.length_s for pause in counted if not pause.in_graph]
    waited_s = sum(pause.waited_s for pause in counted)
    return Gaps(
        count=len(lengths),
        total_s=sum(lengths),
        median_s=percentile(lengths, 50) if lengths else 0.0,
        longest_s=max(lengths, default=0.0),
        short_s=sum(length_s for length_s in outside if length_s < SHORT_PAUSE_S),
        long_s=sum(length_s for length_s in outside if length_s >= LONG_PAUSE_S),
        unsure_s=sum(pause.length_s for pause in counted if pause.unsure),
        start_up_s=sum(pause.length_s for pause in pauses if pause.start_up),
        profiler_s=sum(pause.profiler_s for pause in pauses),
        waited_s=waited_s if knows_waits else None,
        after_waits_s=sum(pause.length_s for pause in counted if pause.waited) - waited_s,
        waits=_operators_waited_in(counted),
        in_graph_s=sum(pause.length_s for pause in counted if pause.in_graph),
        queued_s=sum(pause.queued_s for pause in counted),
    )


def _operators_waited_in(pauses: Sequence[Pause]) -> tuple[OperatorWait, ...]:
    """Return the operators in which the program waited when pauses began, by the time of those pauses."""
    lengths = by_key(
        (pause.waited.operator, pause.length_s)
        for pause in pauses
        if pause.waited and pause.waited.operator is not None
    )
    waits = [OperatorWait(operator=name, pauses=len(own), time_s=sum(own)) for name, own in lengths.items()]
    return tuple(sorted(waits, key=lambda wait: -wait.time_s)[:_OPERATORS])


def long_pause(pause: Pause, first_s: float) -> LongPause:
    """Return a pause for the session, with when it began in the part that is judged."""
    return LongPause(
        start_s=pause.start_s - first_s,
        length_s=pause.length_s,
        cause=_cause(pause),
        before=movement(pause.end),
    )


def _cause(pause: Pause) -> PauseCause:
    if pause.start_up:
        return "start-up"
    if pause.waited_s > pause.length_s / 2:
        return "waited"
    return "in-graph" if pause.in_graph else "unknown"
