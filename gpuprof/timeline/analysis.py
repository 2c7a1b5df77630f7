"""A session from traces: their kernels by launch, and the timeline of each GPU. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from gpuprof.hardware.specs import GpuSpec
from gpuprof.model.analyse import Analysis, HardwareOf, analyse, device_numbers
from gpuprof.model.recorded import Launch, LaunchDetails, Missing, Report, names_of
from gpuprof.model.session import DeviceTimeline, KernelProfile, ModelFlop, Timeline
from gpuprof.timeline.activity_metrics import ActivityMetrics
from gpuprof.timeline.collectives import RankWaits, rank_waits
from gpuprof.timeline.gpus import TracedGpu, device_timeline, gpus_of, waits_of
from gpuprof.timeline.mfu import model_flop, rated_ceilings, with_operators
from gpuprof.timeline.sequences import sequences_of
from gpuprof.timeline.steps import judged_loop, step_times
from gpuprof.timeline.strip import drawn_kernels
from gpuprof.timeline.trace import Activity, Trace

TRACE = "trace"
_NO_COUNTERS = Missing("counters", "a timeline has times only", "profile the program: gpuprof run -- PROGRAM")

_NO_DETAILS = LaunchDetails()


def analyse_traces(traces: Sequence[Trace], hardware_of: HardwareOf, version: str, *, whole: bool = False) -> Analysis:
    """Return a session of the kernels of traces, with their timeline; nothing of it is diagnosed yet.

    The kernels are those of the part that is judged, so that all shares refer to the same time. With `whole` they are
    all, for a survey by which any of them may be profiled.
    """
    gpus = list(gpus_of(traces))
    judged = set(map(id, _judged(gpus)))
    shown = traces if whole else [_only(trace, judged) for trace in traces]
    reports = [as_report(trace) for trace in shown]
    analysis = analyse(reports, hardware_of, version, one_of_a_kind=True)
    numbers = device_numbers(reports)
    # The number of a kernel is that of its launch in the whole trace, as in a survey of it.
    places = [place for place, launch in enumerate(_launched(traces)) if whole or id(launch) in judged]
    kernels = tuple(_timed_only(kernel, places[kernel.id]) for kernel in analysis.session.kernels)
    specs = {kernel.device: recorded.hardware.gpu for kernel, recorded in zip(kernels, analysis.recorded, strict=True)}
    ids = _ids(shown, kernels, analysis.members)
    kernels = tuple(with_operators(shown, ids, kernels, specs))
    timeline = _timeline(traces, gpus, numbers, ids, specs)
    session = replace(analysis.session, ceilings=(), kernels=kernels, timeline=timeline)
    sequences = chain.from_iterable(sequences_of(trace, ids) for trace in shown)
    return Analysis(session, analysis.recorded, sequences=tuple(sequences))


def _judged(gpus: Iterable[TracedGpu]) -> Iterator[Activity]:
    return chain.from_iterable(gpu.activities for gpu in gpus)


def _only(trace: Trace, ids: Container[int]) -> Trace:
    """Return a trace with only the activities that have these ids."""
    return replace(trace, activities=tuple(own for own in trace.activities if id(own) in ids))


def _timeline(
    traces: Sequence[Trace],
    gpus: Sequence[TracedGpu],
    numbers: dict[tuple[int, int], int],
    ids: Mapping[int, int],
    specs: Mapping[int, GpuSpec | None],
) -> Timeline:
    waits = _rank_waits(traces, gpus)
    drawn = drawn_kernels(_judged(gpus), ids)
    devices = tuple(
        device_timeline(gpu, numbers[gpu.source, gpu.ordinal], waits.get(gpu.source), drawn) for gpu in gpus
    )
    return Timeline(
        devices=devices,
        steps=tuple(step_times(traces, devices)),
        waits=tuple(sorted(waits_of(gpus, ids), key=lambda wait: -wait.idle_s)),
        rank=traces[0].rank if len(traces) == 1 else None,
        ranks=_world(traces),
        peak_memory_bytes=_most(trace.peak_memory_bytes for trace in traces),
        source_ranks=tuple(trace.rank for trace in traces),
        model_flop=tuple(_model_flop(traces, gpus, devices, specs)),
    )


def _rank_waits(traces: Sequence[Trace], gpus: Sequence[TracedGpu]) -> Mapping[int, RankWaits]:
    """Return the waits of ranks for each other by file, if each file is of a rank of its own with one GPU."""
    ranks = {gpu.trace.rank for gpu in gpus}
    if None in ranks or not len(ranks) == len(gpus) > 1:
        return {}
    every = {gpu.source: gpu.every for gpu in gpus}
    return rank_waits(every, {gpu.source: gpu.judged for gpu in gpus}, _world(traces))


def _world(traces: Sequence[Trace]) -> int | None:
    """Return the number of ranks of the run; None if no trace has it."""
    return _most(trace.ranks for trace in traces)


def _most(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def as_report(trace: Trace) -> Report:
    """Return the kernels of a trace as launches with their times, registers and shared memory."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    launches = tuple(_as_launch(activity, known) for activity in trace.activities if activity.is_kernel)
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


def _as_launch(activity: Activity, known: dict[tuple[str, ...], tuple[str, ...]]) -> Launch:
    """Return a kernel as a launch; equal ranges are shared, because a trace can have a million kernels."""
    ranges = (*activity.ranges, activity.operator) if activity.operator is not None else activity.ranges
    return Launch(
        name=activity.name,
        demangled=activity.name,
        device=activity.device,
        process=activity.process,
        stream=activity.stream,
        grid=activity.grid,
        block=activity.block,
        ranges=known.setdefault(ranges, ranges),
        metrics=ActivityMetrics(activity),
        details=_NO_DETAILS,
        mangled=activity.mangled,
    )


def _timed_only(kernel: KernelProfile, number: int) -> KernelProfile:
    """Leave of a kernel what a timeline can show, under its number, and say once that it has no counters."""
    source = TRACE if kernel.duration_s is not None else None
    return replace(kernel, id=number, work=(), traffic=(), roofline=(), missing=(_NO_COUNTERS,), duration_source=source)


def _model_flop(
    traces: Sequence[Trace],
    gpus: Sequence[TracedGpu],
    devices: Sequence[DeviceTimeline],
    specs: Mapping[int, GpuSpec | None],
) -> Iterator[ModelFlop]:
    for source, trace in enumerate(traces):
        own = [device for device in devices if device.source == source]
        ceilings = {device.ordinal: rated_ceilings(device.device, specs.get(device.device)) for device in own}
        judged = list(_judged(gpu for gpu in gpus if gpu.source == source))
        flop = model_flop(source, trace, judged, judged_loop(trace, own), ceilings)
        if flop is not None:
            yield flop


def _ids(traces: Sequence[Trace], kernels: Sequence[KernelProfile], members: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the number of the kernel that each launch of the traces is one of, by the identity of the launch."""
    launched = _launched(traces)
    return {
        id(launched[number]): kernel.id
        for kernel, of_kernel in zip(kernels, members, strict=True)
        for number in of_kernel
    }


def _launched(traces: Iterable[Trace]) -> list[Activity]:
    """Return the kernels of traces, launch by launch."""
    return [activity for trace in traces for activity in trace.activities if activity.is_kernel]
