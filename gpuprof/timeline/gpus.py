"""The GPUs of traces, each with the part of what it did that is judged. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpuprof.model.groups import by_key
from gpuprof.timeline.pauses import Pause, judged_pauses
from gpuprof.timeline.trace import Activity, Trace
from gpuprof.timeline.window import Judged, judged_part


class TracedGpu(Struct, frozen=True):
    """What one GPU of a trace did: the trace and the GPU by their places, and all in the order of its start.

    `activities` and `pauses` are those of the part that is judged.
    """

    source: int
    ordinal: int
    every: Sequence[Activity]
    judged: Judged
    activities: Sequence[Activity]
    pauses: Sequence[Pause]
    trace: Trace


def gpus_of(traces: Sequence[Trace]) -> Iterator[TracedGpu]:
    """Yield the GPUs of all traces that did something."""
    for source, trace in enumerate(traces):
        of_gpus = by_key((activity.device, activity) for activity in trace.activities)
        for ordinal, every in sorted(of_gpus.items()):
            judged = judged_part(trace, every)
            activities = [activity for activity in every if judged.has(activity)]
            pauses = list(judged_pauses(trace, every, judged))
            yield TracedGpu(source, ordinal, every, judged, activities, pauses, trace)
