"""Copies and settings of memory by direction, and how long no kernel overlaps them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.model.groups import by_key
from gpuprof.model.session import Copies
from gpuprof.timeline.intervals import TimeInterval, merged, outside
from gpuprof.timeline.trace import COPY, SET, TRY, Activity, movement
from gpuprof.timeline.window import TracedGpu


def copies_of(gpu: TracedGpu) -> Iterator[Copies]:
    """Yield the copies of the judged part by direction and memory, and settings of memory, longest time first.

    A moment is exposed for the first of the copies that runs then: to hide the others alone gains nothing.
    """
    moving = (activity for activity in gpu.activities if activity.kind in (COPY, SET))
    groups = by_key(((movement(activity), activity.memory), activity) for activity in moving)
    taken = merged(_computing(gpu.every))
    # Of a program that was surveyed from its start, what comes before any kernel does not come again.
    begin = taken[0][0] if taken and gpu.trace.from_start else -math.inf
    for moves in sorted(groups.values(), key=lambda moves: -sum(move.duration_s or 0.0 for move in moves)):
        copies = _summed(moves)
        if copies.direction != SET:
            own = merged(move.interval for move in moves if move.start_s >= begin)
            copies = replace(copies, exposed_s=outside(own, taken))
            taken = merged((*taken, *own))
        yield copies


def _computing(activities: Sequence[Activity]) -> Iterator[TimeInterval]:
    """Yield when kernels and graphs ran: one without a time may have run until the next thing on its stream began."""
    next_start_s: dict[int | None, float] = {}
    for activity in reversed(activities):
        start_s, end_s = activity.interval
        if activity.runs_kernels or activity.kind == TRY:
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
