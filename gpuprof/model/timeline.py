"""What a recorded timeline means: how busy each GPU was, its pauses, copies, communication and steps. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from gpuprof.model.analyse import Analysis, HardwareOf, analyse, device_numbers
from gpuprof.model.groups import percentile, spread
from gpuprof.model.report import DictMetrics, Launch, Metric, Missing, Report
from gpuprof.model.session import Communication, Copies, DeviceTimeline, Gaps, KernelProfile, StepTimes, Timeline, Wait
from gpuprof.model.trace import COPY, KERNEL, SET, Activity, Collective, Trace

TRACE = "trace"
SHORT_PAUSE_S, LONG_PAUSE_S = 20e-6, 1e-3
"""A shorter pause is about what launching takes; in a longer one the program did something else."""
_COMMUNICATION = re.compile(r"nccl(?:Dev)?Kernel|nccl[A-Z]|nvshmem", re.IGNORECASE)
_NO_COUNTERS = Missing("counters", "a timeline has times only", "profile the program: gpuprof run -- PROGRAM")

Interval = tuple[float, float]


def analyse_traces(traces: Sequence[Trace], hardware_of: HardwareOf, version: str) -> Analysis:
    """Return a session of the kernels of traces, with their timeline; nothing of it is diagnosed yet."""
    reports = [as_report(trace) for trace in traces]
    analysis = analyse(reports, hardware_of, version, one_of_a_kind=True)
    numbers = device_numbers(reports)
    kernels = tuple(_timed_only(kernel) for kernel in analysis.session.kernels)
    timeline = _timeline(traces, numbers, kernels)
    session = replace(analysis.session, ceilings=(), kernels=kernels, timeline=timeline)
    return Analysis(session, analysis.recorded)


def _timeline(
    traces: Sequence[Trace], numbers: dict[tuple[int, int], int], kernels: Sequence[KernelProfile]
) -> Timeline:
    return Timeline(
        devices=tuple(_devices(traces, numbers)),
        steps=tuple(_steps(traces)),
        waits=_waits(traces, numbers, kernels),
        rank=next((trace.rank for trace in traces if len(traces) == 1), None),
        ranks=max((trace.ranks for trace in traces if trace.ranks is not None), default=None),
        peak_memory_bytes=max(
            (trace.peak_memory_bytes for trace in traces if trace.peak_memory_bytes is not None), default=None
        ),
    )


def as_report(trace: Trace) -> Report:
    """Return the kernels of a trace as launches with their times, registers and shared memory."""
    launches = tuple(_as_launch(one) for one in trace.activities if one.kind == KERNEL)
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
        warnings=trace.warnings,
    )


def _as_launch(one: Activity) -> Launch:
    values: dict[str, Metric] = {}
    if one.duration_s is not None:
        values["gpu__time_duration.sum"] = Metric(one.duration_s, "s")
    if one.registers_per_thread is not None:
        values["launch__registers_per_thread"] = Metric(float(one.registers_per_thread), "register/thread")
    if one.shared_bytes is not None:
        values["launch__shared_mem_per_block_static"] = Metric(float(one.shared_bytes), "B")
        values["launch__shared_mem_per_block_dynamic"] = Metric(0.0, "B")
    return Launch(
        name=one.name,
        demangled=one.name,
        device=one.device,
        process=one.process,
        stream=one.stream,
        grid=one.grid,
        block=one.block,
        ranges=_ranges(one),
        metrics=DictMetrics(values),
        mangled=one.mangled,
    )


def _ranges(one: Activity) -> tuple[str, ...]:
    return (*one.ranges, one.operator) if one.operator is not None else one.ranges


def _timed_only(kernel: KernelProfile) -> KernelProfile:
    """Leave of a kernel what a timeline can tell, and say once that it has no counters."""
    source = TRACE if kernel.duration_s is not None else None
    return replace(kernel, work=(), traffic=(), roofline=(), missing=(_NO_COUNTERS,), duration_source=source)


def _devices(traces: Sequence[Trace], numbers: dict[tuple[int, int], int]) -> Iterator[DeviceTimeline]:
    for source, trace in enumerate(traces):
        for index in range(len(trace.devices)):
            ones = [one for one in trace.activities if one.device == index]
            if ones:
                yield _device(source, numbers[source, index], ones)


def _device(source: int, device: int, ones: Sequence[Activity]) -> DeviceTimeline:
    busy = merged(map(_interval, ones))
    kernels = [one for one in ones if one.kind == KERNEL]
    return DeviceTimeline(
        source=source,
        device=device,
        span_s=busy[-1][1] - busy[0][0],
        busy_s=_length(busy),
        kernel_s=_length(merged(map(_interval, kernels))),
        gaps=_gaps(busy),
        copies=tuple(_copies(ones)),
        communication=_communication(kernels),
        untimed=sum(one.duration_s is None for one in ones),
    )


def _interval(one: Activity) -> Interval:
    return one.start_s, one.start_s + (one.duration_s or 0.0)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals as intervals that do not touch, in order."""
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def common(first: Sequence[Interval], second: Sequence[Interval]) -> float:
    """Return the length of what two unions of intervals have in common."""
    total, i, j = 0.0, 0, 0
    while i < len(first) and j < len(second):
        total += max(0.0, min(first[i][1], second[j][1]) - max(first[i][0], second[j][0]))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return total


def _length(union: Iterable[Interval]) -> float:
    return sum(end - start for start, end in union)


def _gaps(busy: Sequence[Interval]) -> Gaps | None:
    pauses = sorted(after[0] - before[1] for before, after in pairwise(busy))
    if not pauses:
        return None
    return Gaps(
        count=len(pauses),
        total_s=sum(pauses),
        median_s=percentile(pauses, 50),
        longest_s=pauses[-1],
        short_s=sum(pause for pause in pauses if pause < SHORT_PAUSE_S),
        long_s=sum(pause for pause in pauses if pause >= LONG_PAUSE_S),
    )


def _copies(ones: Sequence[Activity]) -> Iterator[Copies]:
    """Yield the copies by direction, then settings of memory, those that take most time first."""
    found: dict[str, list[Activity]] = {}
    for one in ones:
        if one.kind in (COPY, SET):
            found.setdefault("memory set" if one.kind == SET else one.name, []).append(one)
    every = [_copies_of(direction, some) for direction, some in found.items()]
    yield from sorted(every, key=lambda copies: -(copies.time_s or 0.0))


def _copies_of(direction: str, ones: Sequence[Activity]) -> Copies:
    timed = [one for one in ones if one.duration_s is not None and one.bytes is not None]
    sized = [one.bytes for one in ones if one.bytes is not None]
    times = [one.duration_s for one in ones if one.duration_s is not None]
    moving_s = sum(one.duration_s or 0.0 for one in timed)
    rate = sum(one.bytes or 0 for one in timed) / moving_s if moving_s else None
    return Copies(direction, len(ones), sum(sized) if sized else None, sum(times) if times else None, rate)


def _communication(kernels: Sequence[Activity]) -> Communication | None:
    talking = [one for one in kernels if is_communication(one.name)]
    if not talking:
        return None
    union = merged(map(_interval, talking))
    others = merged(_interval(one) for one in kernels if not is_communication(one.name))
    return Communication(
        launches=len(talking),
        time_s=_length(union),
        exposed_s=_length(union) - common(union, others),
        bus_bytes_per_s=_bus_rate(talking),
    )


def is_communication(name: str) -> bool:
    """Tell whether a kernel of this name exchanges data with other GPUs."""
    return _COMMUNICATION.search(name) is not None


def _bus_rate(ones: Sequence[Activity]) -> float | None:
    """Return the bytes that each link carried over the time of the kernels whose size is known."""
    sized = [(one.duration_s, _bus_bytes(one.collective)) for one in ones if one.duration_s and one.collective]
    known = [(seconds, moved) for seconds, moved in sized if seconds is not None and moved is not None]
    seconds = sum(seconds for seconds, _ in known)
    return sum(moved for _, moved in known) / seconds if seconds else None


def _bus_bytes(done: Collective) -> float | None:
    """Return bytes × the factor by which NCCL's tests make bus bandwidth of it (nccl-tests, PERFORMANCE.md)."""
    if done.bytes is None or done.ranks is None or done.ranks < 2:
        return None
    name, others = done.name.lower().replace("_", ""), done.ranks - 1
    if "allreduce" in name:
        return done.bytes * 2 * others / done.ranks
    if "allgather" in name:
        return float(done.bytes * others)
    if "reducescatter" in name or "alltoall" in name:
        return done.bytes * others / done.ranks
    return float(done.bytes)


def _steps(traces: Sequence[Trace]) -> Iterator[StepTimes]:
    for source, trace in enumerate(traces):
        names: dict[str, list[float]] = {}
        for step in trace.steps:
            names.setdefault(step.name, []).append(step.duration_s)
        for name, durations in names.items():
            times = spread(durations)
            mean = sum(durations) / len(durations)
            if times is not None and mean > 0:
                yield StepTimes(source, name, len(durations), times, 1.0 / mean)


def _waits(
    traces: Sequence[Trace], numbers: dict[tuple[int, int], int], kernels: Sequence[KernelProfile]
) -> tuple[Wait, ...]:
    """Add up, for each kernel, the pauses that its launches ended."""
    ids = {_key(one.source, one.device, one.demangled, one): one.id for one in kernels}
    idle: dict[int, list[float]] = {}
    for source, trace in enumerate(traces):
        for index in range(len(trace.devices)):
            end = None
            for one in (one for one in trace.activities if one.device == index):
                if end is not None and one.start_s > end and one.kind == KERNEL:
                    number = ids.get(_key(source, numbers[source, index], one.name, one))
                    if number is not None:
                        idle.setdefault(number, []).append(one.start_s - end)
                end = max(_interval(one)[1], end if end is not None else 0.0)
    waits = [Wait(number, sum(pauses), len(pauses)) for number, pauses in idle.items()]
    return tuple(sorted(waits, key=lambda wait: (-wait.idle_s, wait.kernel)))


def _key(source: int, device: int, name: str, one: Activity | KernelProfile) -> tuple[object, ...]:
    ranges = _ranges(one) if isinstance(one, Activity) else one.ranges
    return source, device, name, one.grid, one.block, ranges
