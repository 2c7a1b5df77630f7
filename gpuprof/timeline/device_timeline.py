"""What one GPU did in the part of a trace that is judged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from math import inf

from msgspec.structs import replace

from gpuprof.model.groups import by_key, spread, summed
from gpuprof.model.session import Communication, Copies, DeviceTimeline, LeftOut, Wait, WholeGraph, WholeGraphs
from gpuprof.timeline.collectives import bus_rate
from gpuprof.timeline.intervals import TimeInterval, common, holes, is_within, length, merged, outside
from gpuprof.timeline.pauses import Pause, gaps_of
from gpuprof.timeline.strip import strip_of
from gpuprof.timeline.trace import COPY, GRAPH, MEMORY, SET, SHAPES, STACKS, TRY, Activity, Trace, movement
from gpuprof.timeline.window import TracedGpu

_LONGEST = 3


def device_timeline(gpu: TracedGpu, pauses: Sequence[Pause], number: int, drawn: Mapping[str, int]) -> DeviceTimeline:
    """Return what a GPU did in the judged part; `drawn` are the kernels that have a row of their own."""
    judged = gpu.judged
    first_s, last_s = gpu.every[0].start_s, max(activity.interval[1] for activity in gpu.every)
    begin_s = min(judged.start_s, judged.warm_up_s)
    return DeviceTimeline(
        source=gpu.source,
        ordinal=gpu.ordinal,
        device=number,
        span_s=length(judged.intervals),
        busy_s=_time_s(gpu.every, judged.intervals),
        kernel_s=_time_s((own for own in gpu.every if own.is_kernel), judged.intervals),
        gaps=gaps_of(pauses, knows_waits=gpu.trace.host_waits is not None),
        copies=tuple(_copies(gpu)),
        graphs=_whole_graphs(gpu),
        communication=_communication(gpu),
        untimed=sum(activity.duration_s is None for activity in gpu.activities),
        strip=strip_of(gpu, pauses, drawn),
        judged=judged.part,
        steps=judged.steps,
        start_up=_left_out(gpu, [(first_s, begin_s)]),
        warm_up=_left_out(gpu, [(begin_s, judged.start_s)], judged.warm_up_steps),
        between=_left_out(gpu, holes(judged.intervals)),
        after_s=max(0.0, last_s - judged.end_s),
        from_start=gpu.trace.from_start,
        slowed_by=_slowed_by(gpu.trace),
    )


def _copies(gpu: TracedGpu) -> Iterator[Copies]:
    """Yield the copies of the judged part by direction and memory, and settings of memory, longest time first.

    A moment is exposed for the first of the copies that runs then: to hide the others alone gains nothing.
    """
    moving = (activity for activity in gpu.activities if activity.kind in (COPY, SET))
    groups = by_key(((movement(activity), activity.memory), activity) for activity in moving)
    taken = merged(_running(gpu.every, lambda own: own.runs_kernels or own.kind == TRY))
    # Of a program that was surveyed from its start, what comes before any kernel does not come again.
    begin = taken[0][0] if taken and gpu.trace.from_start else -inf
    for moves in sorted(groups.values(), key=lambda moves: -sum(move.duration_s or 0.0 for move in moves)):
        copies = _summed(moves)
        if copies.direction != SET and not gpu.trace.incomplete:
            own = merged(move.interval for move in moves if move.start_s >= begin)
            copies = replace(copies, exposed_s=outside(own, taken))
            taken = merged((*taken, *own))
        yield copies


def _running(activities: Sequence[Activity], wanted: Callable[[Activity], bool]) -> Iterator[TimeInterval]:
    """Yield when wanted activities ran: one without a time may have run until the next thing on its stream began."""
    next_start_s: dict[int | None, float] = {}
    for activity in reversed(activities):
        start_s, end_s = activity.interval
        if wanted(activity):
            yield start_s, end_s if activity.duration_s is not None else next_start_s.get(activity.stream, end_s)
        next_start_s[activity.stream] = start_s


def _summed(moves: Sequence[Activity]) -> Copies:
    """Return the sums over copies of one direction and memory."""
    timed = [(move.bytes, move.duration_s) for move in moves if move.duration_s is not None]
    sizes = [move.bytes for move in moves if move.bytes is not None]
    moved = [(size, time_s) for size, time_s in timed if size is not None]
    moving_s = sum(time_s for _, time_s in moved)
    return Copies(
        direction=movement(moves[0]),
        memory=moves[0].memory,
        count=len(moves),
        bytes=sum(sizes) if sizes else None,
        time_s=sum(time_s for _, time_s in timed) if timed else None,
        bytes_per_s=sum(size for size, _ in moved) / moving_s if moving_s else None,
    )


def _whole_graphs(gpu: TracedGpu) -> WholeGraphs | None:
    """Return the graphs of the judged part; None without any."""
    times = by_key((activity.name, activity.duration_s) for activity in gpu.activities if activity.kind == GRAPH)
    if not times:
        return None
    graphs = []
    for name, times_s in times.items():
        known = spread(times_s)
        median_s = known.p50 if known is not None else None
        time_s = sum(time_s or 0.0 for time_s in times_s)
        graphs.append(WholeGraph(name=name, replays=len(times_s), time_s=time_s, median_s=median_s))
    longest = nlargest(_LONGEST, graphs, key=lambda graph: graph.time_s)
    return WholeGraphs(
        graphs=len(graphs),
        replays=sum(graph.replays for graph in graphs),
        time_s=_time_s((own for own in gpu.every if own.kind == GRAPH), gpu.judged.intervals),
        longest=tuple(longest),
    )


def _slowed_by(trace: Trace) -> tuple[str, ...]:
    """Return what the profiler recorded beside times; nothing for gpuprof's own survey, which needs what it records."""
    if trace.hook_ranges is not None:
        return ()
    return tuple(what for what in (STACKS, SHAPES, MEMORY) if what in trace.recorded)


def _left_out(gpu: TracedGpu, times: Sequence[TimeInterval], steps: int = 0) -> LeftOut | None:
    """Return what a GPU did in times that are not judged; None if they are empty."""
    time_s = length(times)
    if time_s <= 0:
        return None
    others = (own for own in gpu.every if not gpu.judged.has(own))
    return LeftOut(
        time_s=time_s,
        busy_s=_time_s(gpu.every, times),
        launches=sum(own.is_kernel and is_within(own.start_s, times) for own in others),
        steps=steps,
    )


def _time_s(activities: Iterable[Activity], times: Sequence[TimeInterval]) -> float:
    """Return for how long in these times any of the activities ran."""
    return common(times, merged(activity.interval for activity in activities))


def _communication(gpu: TracedGpu) -> Communication | None:
    talking = [kernel for kernel in gpu.activities if kernel.is_kernel and not kernel.computes]
    if not talking:
        return None
    union = merged(kernel.interval for kernel in talking)
    computing = merged(_running(gpu.every, lambda own: own.computes))
    return Communication(
        launches=len(talking),
        time_s=length(union),
        exposed_s=None if gpu.trace.incomplete else outside(union, computing),
        bus_bytes_per_s=bus_rate((kernel.duration_s, kernel.collective) for kernel in talking),
    )


def waits_of(gpu: TracedGpu, pauses: Iterable[Pause], ids: Mapping[int, int]) -> Iterator[Wait]:
    """Add up the pauses of a GPU that launches of a kernel ended, and those that copies of a direction ended.

    Those of the start-up are left out.
    """
    ended = by_key(
        ((movement(pause.end), pause.end.is_kernel and ids.get(id(pause.kernel))), pause)
        for pause in pauses
        if not pause.start_up
    )
    for (before, _), own in ended.items():
        # The kernel that came next after most of the time.
        next_s = summed((ids[id(pause.kernel)], pause.length_s) for pause in own if id(pause.kernel) in ids)
        yield Wait(
            source=gpu.source,
            ordinal=gpu.ordinal,
            before=before,
            kernel=max(next_s, key=next_s.__getitem__, default=None),
            idle_s=sum(pause.length_s for pause in own),
            pauses=len(own),
        )
