"""What a recorded timeline means: how busy each GPU was, its pauses, copies, communication and steps. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.hardware.specs import GpuSpec
from gpuprof.model.analyse import Analysis, HardwareOf, analyse, device_numbers
from gpuprof.model.field_types import PauseCause
from gpuprof.model.groups import percentile
from gpuprof.model.recorded import DictMetrics, Launch, Metric, Missing, Report, names_of
from gpuprof.model.session import (
    Ceiling,
    Communication,
    Copies,
    DeviceTimeline,
    Gaps,
    KernelProfile,
    LongPause,
    ModelFlop,
    StartUp,
    Timeline,
    Wait,
)
from gpuprof.timeline.collectives import RankWaits, bus_rate, rank_waits
from gpuprof.timeline.intervals import TimeInterval, length, merged, outside
from gpuprof.timeline.mfu import launched_products, model_flop, operator_bytes, operator_flop, rated_ceilings
from gpuprof.timeline.steps import loop_of, step_times
from gpuprof.timeline.strip import drawn_kernels, strip_of
from gpuprof.timeline.torch_flop import ProductFlop
from gpuprof.timeline.trace import (
    COPY,
    KERNEL,
    MEMORY_SET,
    SET,
    TRY,
    Activity,
    HostWait,
    Trace,
    is_communication,
)
from gpuprof.timeline.window import FIRST_TIME, LONG_PAUSE_S, Judged, cut, judged_part

TRACE = "trace"
SHORT_PAUSE_S = 20e-6
"""A shorter pause is about what launching takes."""
_CLOCKS_S = 1e-6
"""Old traces have whole microseconds. On an H100 a wait ended 3 µs and more after what it waited for."""
_ROUNDING_S = 0.5e-9
"""Times are whole nanoseconds: what is shorter is no pause, but comes of adding them up as fractions."""
_TOLD_PAUSES = 3
_NO_COUNTERS = Missing("counters", "a timeline has times only", "profile the program: gpuprof run -- PROGRAM")


class _Pause(NamedTuple):
    """A time in which a GPU did nothing, what ended it, and the first kernel from then on.

    `unsure` says that the last thing before it, on any stream, has no time: it may have filled the pause. `start_up`
    says that it does not come again, however long the program runs. `waited` says that the program waited for the GPU
    when it began, so that nothing was launched meanwhile. `in_graph` says that what it follows and what ends it are
    nodes of one launch of a CUDA graph: the CPU had launched both before.
    """

    length_s: float
    end: Activity
    kernel: Activity | None
    unsure: bool
    start_up: bool = False
    waited: bool = False
    in_graph: bool = False


class _OneGpu(Struct, frozen=True):
    """What one GPU of a trace did: the trace and the GPU by their places, and all in the order of its start.

    `pauses` are those of the part that is judged.
    """

    source: int
    ordinal: int
    every: Sequence[Activity]
    judged: Judged
    pauses: Sequence[_Pause]
    knows_waits: bool
    from_start: bool

    @property
    def activities(self) -> Sequence[Activity]:
        """Return those of the part that is judged."""
        return [activity for activity in self.every if self.judged.has(activity)]


def analyse_traces(traces: Sequence[Trace], hardware_of: HardwareOf, version: str) -> Analysis:
    """Return a session of the kernels of traces, with their timeline; nothing of it is diagnosed yet."""
    reports = [as_report(trace) for trace in traces]
    analysis = analyse(reports, hardware_of, version, one_of_a_kind=True)
    numbers = device_numbers(reports)
    kernels = tuple(_timed_only(kernel) for kernel in analysis.session.kernels)
    gpus = {kernel.device: recorded.hardware.gpu for kernel, recorded in zip(kernels, analysis.recorded, strict=True)}
    ceilings = {number: rated_ceilings(number, gpu) for number, gpu in gpus.items()}
    ids = _ids(traces, analysis)
    kernels = tuple(_with_operator_flop(traces, ids, kernels, ceilings, gpus))
    kernels = tuple(_with_operator_bytes(traces, ids, kernels, gpus))
    timeline = _timeline(traces, numbers, ids, ceilings)
    session = replace(analysis.session, ceilings=(), kernels=kernels, timeline=timeline)
    return Analysis(session, analysis.recorded)


def _timeline(
    traces: Sequence[Trace],
    numbers: dict[tuple[int, int], int],
    ids: Mapping[int, int],
    ceilings: Mapping[int, Sequence[Ceiling]],
) -> Timeline:
    gpus = list(_gpus(traces))
    waits = _rank_waits(traces, gpus)
    drawn = drawn_kernels(chain.from_iterable(gpu.activities for gpu in gpus), lambda activity: ids.get(id(activity)))
    return Timeline(
        devices=tuple(_device(gpu, numbers[gpu.source, gpu.ordinal], waits.get(gpu.source), drawn) for gpu in gpus),
        steps=tuple(step_times(traces)),
        waits=tuple(sorted(_waits(gpus, ids), key=lambda wait: -wait.idle_s)),
        rank=next((trace.rank for trace in traces if len(traces) == 1), None),
        ranks=max((trace.ranks for trace in traces if trace.ranks is not None), default=None),
        peak_memory_bytes=max(
            (trace.peak_memory_bytes for trace in traces if trace.peak_memory_bytes is not None), default=None
        ),
        source_ranks=tuple(trace.rank for trace in traces),
        model_flop=tuple(_model_flop(traces, numbers, ceilings)),
    )


def _rank_waits(traces: Sequence[Trace], gpus: Sequence[_OneGpu]) -> Mapping[int, RankWaits]:
    """Return by file what ranks waited for each other, where each is of a rank of its own with one GPU."""
    ranks = {traces[gpu.source].rank for gpu in gpus}
    if None in ranks or not len(ranks) == len(gpus) > 1:
        return {}
    return rank_waits({gpu.source: gpu.every for gpu in gpus}, {gpu.source: gpu.judged for gpu in gpus})


def as_report(trace: Trace) -> Report:
    """Return the kernels of a trace as launches with their times, registers and shared memory."""
    launches = tuple(_as_launch(activity) for activity in trace.activities if activity.kind == KERNEL)
    return Report(
        file=trace.file,
        sha256=trace.sha256,
        kind=trace.kind,
        tool=trace.tool,
        tool_version=trace.tool_version,
        launches=launches,
        devices=trace.devices,
        command=trace.command,
        driver=trace.driver,
        created_s=round(trace.created_s) if trace.created_s is not None else None,
        rank=trace.rank,
        names=names_of(launches),
        warnings=trace.warnings,
    )


def _as_launch(activity: Activity) -> Launch:
    values: dict[str, Metric] = {}
    if activity.duration_s is not None:
        values["gpu__time_duration.sum"] = Metric(activity.duration_s, "s")
    if activity.registers_per_thread is not None:
        values["launch__registers_per_thread"] = Metric(float(activity.registers_per_thread), "register/thread")
    if activity.shared_bytes is not None:
        values["launch__shared_mem_per_block_static"] = Metric(float(activity.shared_bytes), "B")
        values["launch__shared_mem_per_block_dynamic"] = Metric(0.0, "B")
    return Launch(
        name=activity.name,
        demangled=activity.name,
        device=activity.device,
        process=activity.process,
        stream=activity.stream,
        grid=activity.grid,
        block=activity.block,
        ranges=_ranges(activity),
        metrics=DictMetrics(values),
        mangled=activity.mangled,
    )


def _ranges(activity: Activity) -> tuple[str, ...]:
    return (*activity.ranges, activity.operator) if activity.operator is not None else activity.ranges


def _timed_only(kernel: KernelProfile) -> KernelProfile:
    """Leave of a kernel what a timeline can tell, and say once that it has no counters."""
    source = TRACE if kernel.duration_s is not None else None
    return replace(kernel, work=(), traffic=(), roofline=(), missing=(_NO_COUNTERS,), duration_source=source)


def _gpus(traces: Sequence[Trace]) -> Iterator[_OneGpu]:
    """Yield the GPUs of all traces that did something."""
    for source, trace in enumerate(traces):
        for index in range(len(trace.devices)):
            activities = [activity for activity in trace.activities if activity.device == index]
            if activities:
                judged = judged_part(trace, activities)
                waits = _Waits(trace.host_waits or ())
                pauses = _pauses(activities, judged.start_s, waits, from_start=trace.from_start)
                yield _OneGpu(
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


def _device(gpu: _OneGpu, number: int, waits: RankWaits | None, drawn: Mapping[str, int | None]) -> DeviceTimeline:
    activities, (start_s, end_s, part) = gpu.activities, gpu.judged
    kernels = [activity for activity in gpu.every if activity.kind == KERNEL]
    longest = nlargest(_TOLD_PAUSES, gpu.pauses, key=lambda pause: pause.length_s)
    return DeviceTimeline(
        source=gpu.source,
        ordinal=gpu.ordinal,
        device=number,
        span_s=end_s - start_s,
        busy_s=length(cut((activity.interval for activity in gpu.every), start_s, end_s)),
        kernel_s=length(cut((kernel.interval for kernel in kernels), start_s, end_s)),
        gaps=_gaps(gpu.pauses, knows_waits=gpu.knows_waits),
        copies=tuple(_copies(gpu)),
        communication=_communication(kernels, gpu.judged, waits),
        untimed=sum(activity.duration_s is None for activity in activities),
        strip=strip_of(activities, start_s, drawn, (_long_pause(pause, start_s) for pause in longest)),
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


def _long_pause(pause: _Pause, first_s: float) -> LongPause:
    """Return a pause as it is told of, with when it began in the part that is judged."""
    causes: tuple[tuple[bool, PauseCause], ...] = (
        (pause.start_up, "start-up"),
        (pause.waited, "waited"),
        (pause.in_graph, "in-graph"),
    )
    return LongPause(
        start_s=max(0.0, pause.end.start_s - pause.length_s - first_s),
        length_s=pause.length_s,
        cause=next((cause for so, cause in causes if so), "unknown"),
        before=_before(pause),
    )


class _Waits:
    """The calls in which a program waited for a GPU, in the order of their end, and those of each process."""

    def __init__(self, waits: Sequence[HostWait]) -> None:
        self._waits = waits
        self._of_process: defaultdict[int | None, list[HostWait]] = defaultdict(list)
        for wait in waits:
            self._of_process[wait.process].append(wait)

    def cover(self, start_s: float, end_s: float, process: int | None) -> bool:
        """Tell whether a process, None for any, was waiting when a pause began, and no longer when it ended.

        A call that lasts longer than the pause waits for something else: another thread has launched.
        """
        waits = self._of_process.get(process, ()) if process is not None else self._waits
        at = bisect_left(waits, start_s - _CLOCKS_S, key=lambda wait: wait.end_s)
        while at < len(waits) and waits[at].end_s <= end_s:
            if waits[at].start_s <= start_s:
                return True
            at += 1
        return False


def _pauses(activities: Sequence[Activity], begin_s: float, waits: _Waits, *, from_start: bool) -> list[_Pause]:
    """Return the pauses of a GPU from `begin_s` or its first activity on; activities come in the order of their start.

    `from_start` says that they begin with the program: of any other recording nothing is taken for a start-up.
    """
    following = _next_kernels(activities)
    pauses: list[tuple[_Pause, int | None]] = []
    end, last = min(begin_s, activities[0].start_s), activities[0]
    untimed: set[int | None] = set()
    for place, activity in enumerate(activities):
        if activity.start_s > end + _ROUNDING_S:
            launch = following[place]
            kernel = activities[launch] if launch is not None else None
            in_graph = activity.graph_launch is not None and activity.graph_launch == last.graph_launch
            pause = _Pause(
                length_s=activity.start_s - end,
                end=activity,
                kernel=kernel,
                unsure=bool(untimed),
                waited=not in_graph and waits.cover(end, activity.start_s, activity.process),
                in_graph=in_graph,
            )
            pauses.append((pause, launch))
            untimed.clear()
        # What comes next on a stream begins after the one before has ended.
        (untimed.add if activity.duration_s is None else untimed.discard)(activity.stream)
        ended = activity.interval[1]
        if ended >= end:
            end, last = ended, activity
    first = _loading_pauses(activities, pauses) if from_start else {}
    return [
        pause._replace(start_up=launch == following[0] or pause.length_s >= first[launch]) if launch in first else pause
        for pause, launch in pauses
    ]


def _loading_pauses(
    activities: Sequence[Activity], pauses: Sequence[tuple[_Pause, int | None]]
) -> dict[int | None, float]:
    """Return, for the place of each kernel's first launch, from how long on a pause before it is for loading it.

    Of one that is launched once nothing is known but when: before any kernel comes again, the program sets up.
    """
    before: dict[int | None, float] = {}
    for pause, launch in pauses:
        before[launch] = before.get(launch, 0.0) + pause.length_s
    launches: dict[str, list[int]] = {}
    for place, activity in enumerate(activities):
        if activity.kind == KERNEL:
            launches.setdefault(activity.name, []).append(place)
    again = min((places[1] for places in launches.values() if len(places) > 1), default=0)
    shortest: dict[int | None, float] = {}
    for first, *later in launches.values():
        if later:
            longest_s = max(before.get(place, 0.0) for place in later)
            shortest[first] = max(SHORT_PAUSE_S, FIRST_TIME * longest_s)
        else:
            shortest[first] = LONG_PAUSE_S if first < again else math.inf
    return shortest


def _next_kernels(activities: Sequence[Activity]) -> list[int | None]:
    """Return for each activity the place of the first kernel from it on."""
    next_kernels: list[int | None] = []
    following = None
    for place in range(len(activities) - 1, -1, -1):
        following = place if activities[place].kind == KERNEL else following
        next_kernels.append(following)
    return next_kernels[::-1]


def _gaps(pauses: Sequence[_Pause], *, knows_waits: bool) -> Gaps | None:
    if not pauses:
        return None
    counted = [pause for pause in pauses if not pause.start_up]
    lengths = sorted(pause.length_s for pause in counted)
    between = [pause.length_s for pause in counted if not pause.in_graph]
    return Gaps(
        count=len(lengths),
        total_s=sum(lengths),
        median_s=percentile(lengths, 50) if lengths else 0.0,
        longest_s=max(lengths, default=0.0),
        short_s=sum(length_s for length_s in between if length_s < SHORT_PAUSE_S),
        long_s=sum(length_s for length_s in between if length_s >= LONG_PAUSE_S),
        unsure_s=sum(pause.length_s for pause in counted if pause.unsure),
        start_up_s=sum(pause.length_s for pause in pauses if pause.start_up),
        waited_s=sum(pause.length_s for pause in counted if pause.waited) if knows_waits else None,
        in_graph_s=sum(pause.length_s for pause in counted if pause.in_graph),
    )


def _copies(gpu: _OneGpu) -> Iterator[Copies]:
    """Yield the copies by direction and memory, and settings of memory, those that take most time first.

    A moment is exposed for the first of them that copies then: to hide the others alone gains nothing.
    """
    groups: dict[tuple[str, str | None], list[Activity]] = {}
    for activity in gpu.activities:
        if activity.kind in (COPY, SET):
            groups.setdefault((_movement(activity), activity.memory), []).append(activity)
    every = [(_copies_of(direction, moves), memory, moves) for (direction, memory), moves in groups.items()]
    taken = merged(_computing(gpu.every))
    # Of a program that was surveyed from its start, what comes before any kernel does not come again.
    begin = taken[0][0] if taken and gpu.from_start else -math.inf
    for copies, memory, moves in sorted(every, key=lambda entry: -(entry[0].time_s or 0.0)):
        exposed_s = None
        if copies.direction != MEMORY_SET:
            own = merged(move.interval for move in moves if move.start_s >= begin)
            exposed_s, taken = outside(own, taken), merged((*taken, *own))
        yield replace(copies, memory=memory, exposed_s=exposed_s)


def _computing(activities: Sequence[Activity]) -> Iterator[TimeInterval]:
    """Yield when kernels ran: one without a time may have run until the next thing on its stream began."""
    next_start_s: dict[int | None, float] = {}
    for activity in reversed(activities):
        start_s, end_s = activity.interval
        if activity.kind in (KERNEL, TRY):
            yield start_s, end_s if activity.duration_s is not None else next_start_s.get(activity.stream, end_s)
        next_start_s[activity.stream] = start_s


def _movement(activity: Activity) -> str:
    return MEMORY_SET if activity.kind == SET else TRY if activity.kind == TRY else activity.name


def _before(pause: _Pause) -> str:
    """Return what ended a pause: a kernel, or the direction of a copy."""
    return KERNEL if pause.end.kind == KERNEL else _movement(pause.end)


def _copies_of(direction: str, activities: Sequence[Activity]) -> Copies:
    timed = [activity for activity in activities if activity.duration_s is not None and activity.bytes is not None]
    sized = [activity.bytes for activity in activities if activity.bytes is not None]
    times = [activity.duration_s for activity in activities if activity.duration_s is not None]
    moving_s = sum(activity.duration_s or 0.0 for activity in timed)
    rate = sum(activity.bytes or 0 for activity in timed) / moving_s if moving_s else None
    return Copies(
        direction=direction,
        count=len(activities),
        bytes=sum(sized) if sized else None,
        time_s=sum(times) if times else None,
        bytes_per_s=rate,
    )


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


def _model_flop(
    traces: Sequence[Trace], numbers: Mapping[tuple[int, int], int], ceilings: Mapping[int, Sequence[Ceiling]]
) -> Iterator[ModelFlop]:
    for source, trace in enumerate(traces):
        of_gpus = [ceilings.get(numbers[source, index], ()) for index in range(len(trace.devices))]
        flop = model_flop(source, trace, loop_of(trace), of_gpus)
        if flop is not None:
            yield flop


def _ids(traces: Sequence[Trace], analysis: Analysis) -> dict[int, int]:
    """Return the number of the kernel that each launch of the traces is one of, by the identity of the launch."""
    launched = [activity for trace in traces for activity in trace.activities if activity.kind == KERNEL]
    return {
        id(launched[number]): kernel.id
        for kernel, members in zip(analysis.session.kernels, analysis.members, strict=True)
        for number in members
    }


def _with_operator_flop(
    traces: Sequence[Trace],
    ids: Mapping[int, int],
    kernels: Sequence[KernelProfile],
    ceilings: Mapping[int, Sequence[Ceiling]],
    gpus: Mapping[int, GpuSpec | None],
) -> Iterator[KernelProfile]:
    """Yield kernels with the FLOP that the operators of their launches ask for, where those do their product alone."""
    if not any(trace.products for trace in traces):
        yield from kernels
        return
    of_kernel: dict[int, list[ProductFlop | None]] = {}
    for trace in traces:
        flop = launched_products(trace)
        for place, activity in enumerate(trace.activities):
            if activity.kind == KERNEL:
                of_kernel.setdefault(ids[id(activity)], []).append(flop.get(place))
    for kernel in kernels:
        limits, gpu = ceilings.get(kernel.device, ()), gpus.get(kernel.device)
        asked = operator_flop(of_kernel.get(kernel.id, ()), kernel, limits, gpu)
        yield replace(kernel, operator_flop=asked) if asked is not None else kernel


def _with_operator_bytes(
    traces: Sequence[Trace],
    ids: Mapping[int, int],
    kernels: Sequence[KernelProfile],
    gpus: Mapping[int, GpuSpec | None],
) -> Iterator[KernelProfile]:
    """Yield kernels with the bytes that the point-wise operators of their launches move."""
    of_kernel: defaultdict[int, set[int | None]] = defaultdict(set)
    for trace in traces:
        for activity in trace.activities:
            if activity.kind == KERNEL:
                of_kernel[ids[id(activity)]].add(activity.operand_bytes)
    for kernel in kernels:
        moved = operator_bytes(of_kernel[kernel.id], kernel, gpus.get(kernel.device))
        yield replace(kernel, operator_bytes=moved) if moved is not None else kernel


def _waits(gpus: Sequence[_OneGpu], ids: Mapping[int, int]) -> Iterator[Wait]:
    """Add up, for each GPU, the pauses that launches of a kernel ended, and those that copies of a direction ended.

    Those of the start-up are left out.
    """
    for gpu in gpus:
        lengths: dict[str, dict[int | None, list[float]]] = {}
        for pause in gpu.pauses:
            if not pause.start_up:
                before = _before(pause)
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
