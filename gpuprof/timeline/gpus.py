"""What one GPU did in the part of a trace that is judged. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain

from msgspec import Struct

from gpuprof.model.session import Communication, DeviceTimeline, StartUp, Wait
from gpuprof.timeline.collectives import RankWaits, bus_rate
from gpuprof.timeline.copies import copies_of
from gpuprof.timeline.graphs import whole_graphs
from gpuprof.timeline.intervals import length, merged, outside
from gpuprof.timeline.pauses import HostWaits, Pause, gaps_of, long_pause, pauses_of, what_ended
from gpuprof.timeline.strip import strip_of
from gpuprof.timeline.trace import GRAPH, KERNEL, Activity, Trace, is_communication
from gpuprof.timeline.window import Judged, cut, judged_part

_TOLD_PAUSES = 3


class TracedGpu(Struct, frozen=True):
    """What one GPU of a trace did: the trace and the GPU by their places, and all in the order of its start.

    `pauses` are those of the part that is judged.
    """

    source: int
    ordinal: int
    every: Sequence[Activity]
    judged: Judged
    pauses: Sequence[Pause]
    knows_waits: bool
    from_start: bool

    @property
    def activities(self) -> Sequence[Activity]:
        """Return those of the part that is judged."""
        return [activity for activity in self.every if self.judged.has(activity)]


def gpus_of(traces: Sequence[Trace]) -> Iterator[TracedGpu]:
    """Yield the GPUs of all traces that did something."""
    for source, trace in enumerate(traces):
        for index in range(len(trace.devices)):
            activities = [activity for activity in trace.activities if activity.device == index]
            if activities:
                judged = judged_part(trace, activities)
                waits = HostWaits(trace.host_waits or ())
                pauses = pauses_of(activities, judged.start_s, waits, from_start=trace.from_start)
                yield TracedGpu(
                    source=source,
                    ordinal=index,
                    every=activities,
                    judged=judged,
                    pauses=[
                        pause._replace(length_s=min(pause.length_s, pause.end.start_s - judged.start_s))
                        for pause in pauses
                        if judged.start_s < pause.end.start_s <= judged.end_s
                    ],
                    knows_waits=trace.host_waits is not None,
                    from_start=trace.from_start,
                )


def device_timeline(
    gpu: TracedGpu, number: int, waits: RankWaits | None, drawn: Mapping[str, int | None]
) -> DeviceTimeline:
    """Return what a GPU did in the judged part; `drawn` are the kernels that have a row of their own."""
    activities, (start_s, end_s, part) = gpu.activities, gpu.judged
    kernels = [activity for activity in gpu.every if activity.kind == KERNEL]
    graphs = [activity for activity in gpu.every if activity.kind == GRAPH]
    longest = nlargest(_TOLD_PAUSES, gpu.pauses, key=lambda pause: pause.length_s)
    return DeviceTimeline(
        source=gpu.source,
        ordinal=gpu.ordinal,
        device=number,
        span_s=end_s - start_s,
        busy_s=length(cut((activity.interval for activity in gpu.every), start_s, end_s)),
        kernel_s=length(cut((kernel.interval for kernel in kernels), start_s, end_s)),
        gaps=gaps_of(gpu.pauses, knows_waits=gpu.knows_waits),
        graphs=whole_graphs(activities, length(cut((graph.interval for graph in graphs), start_s, end_s))),
        copies=tuple(copies_of(activities, gpu.every, from_start=gpu.from_start)),
        communication=_communication(kernels, gpu.judged, waits),
        untimed=sum(activity.duration_s is None for activity in activities),
        strip=strip_of(activities, start_s, drawn, (long_pause(pause, start_s) for pause in longest)),
        judged=part,
        start_up=_start_up(gpu.every, start_s),
        after_s=max(activity.interval[1] for activity in gpu.every) - end_s,
    )


def _start_up(every: Sequence[Activity], judged_s: float) -> StartUp | None:
    """Return what a GPU did before the part that is judged; None where that begins with its first activity."""
    first_s = every[0].start_s
    if judged_s <= first_s:
        return None
    busy = cut((activity.interval for activity in every), first_s, judged_s)
    return StartUp(time_s=judged_s - first_s, busy_s=length(busy))


def _communication(kernels: Sequence[Activity], judged: Judged, waits: RankWaits | None) -> Communication | None:
    talking = [kernel for kernel in kernels if judged.has(kernel) and is_communication(kernel.name)]
    if not talking:
        return None
    union = merged(kernel.interval for kernel in talking)
    computing = merged(kernel.interval for kernel in kernels if kernel.computes)
    return Communication(
        launches=len(talking),
        time_s=length(union),
        exposed_s=outside(union, computing),
        bus_bytes_per_s=bus_rate((kernel.duration_s, kernel.collective) for kernel in talking),
        waiting_s=waits.waiting_s if waits is not None else None,
        awaited_s=waits.awaited_s if waits is not None else None,
        transfer_bytes_per_s=waits.bus_bytes_per_s if waits is not None else None,
    )


def waits_of(gpus: Sequence[TracedGpu], ids: Mapping[int, int]) -> Iterator[Wait]:
    """Add up, for each GPU, the pauses that launches of a kernel ended, and those that copies of a direction ended.

    Those of the start-up are left out.
    """
    for gpu in gpus:
        lengths: dict[str, dict[int | None, list[float]]] = {}
        for pause in gpu.pauses:
            if not pause.start_up:
                before = what_ended(pause)
                number = ids.get(id(pause.kernel))
                lengths.setdefault(before, {}).setdefault(number, []).append(pause.length_s)
        for before, of_kernel in lengths.items():
            ended = of_kernel
            if before != KERNEL:
                ended = {_longest(of_kernel): list(chain.from_iterable(of_kernel.values()))}
            for kernel, pauses_s in ended.items():
                yield Wait(
                    source=gpu.source,
                    ordinal=gpu.ordinal,
                    before=before,
                    kernel=kernel,
                    idle_s=sum(pauses_s),
                    pauses=len(pauses_s),
                )


def _longest(of_kernel: Mapping[int | None, Sequence[float]]) -> int | None:
    """Return the kernel that came next after most of the time of pauses."""
    known = {number: sum(lengths) for number, lengths in of_kernel.items() if number is not None}
    return max(known, key=lambda number: known[number], default=None)
