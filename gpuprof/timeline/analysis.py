"""A session from traces: their kernels by launch, and the timeline of each GPU. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from gpuprof.model.analyse import Analysis, HardwareOf, analyse, device_numbers
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Ceiling, DeviceTimeline, KernelProfile, Timeline, Wait
from gpuprof.timeline.collectives import with_waits
from gpuprof.timeline.device_timeline import device_timeline, waits_of
from gpuprof.timeline.launches import as_report
from gpuprof.timeline.mfu import model_flop, rated_ceilings, with_operators
from gpuprof.timeline.pauses import judged_pauses
from gpuprof.timeline.sequences import sequences_of
from gpuprof.timeline.steps import judged_loop, step_times
from gpuprof.timeline.strip import drawn_kernels
from gpuprof.timeline.trace import Activity, Trace
from gpuprof.timeline.window import TracedGpu, gpus_of

_NO_COUNTERS = Missing("counters", "a timeline has times only", "profile the program: gpuprof run -- PROGRAM")


def analyse_traces(traces: Sequence[Trace], hardware_of: HardwareOf, version: str, *, whole: bool = False) -> Analysis:
    """Return a session of the kernels of traces, with their timeline; nothing of it is diagnosed yet.

    The kernels are those of the part that is judged, so that all shares refer to the same time. With `whole` they are
    all, for a survey by which any of them may be profiled.
    """
    gpus = list(gpus_of(traces))
    judged = {id(activity) for gpu in gpus for activity in gpu.activities}
    shown = traces if whole else [_only(trace, judged) for trace in traces]
    reports = [as_report(trace) for trace in shown]
    analysis = analyse(reports, hardware_of, version, one_of_a_kind=True)
    numbers = device_numbers(reports)
    # The number of a kernel is that of its launch in the whole trace, as in a survey of it.
    places = [place for place, launch in enumerate(_launched(traces)) if whole or id(launch) in judged]
    kernels = tuple(_timed_only(kernel, places[kernel.id]) for kernel in analysis.session.kernels)
    specs = {kernel.device: recorded.hardware.gpu for kernel, recorded in zip(kernels, analysis.recorded, strict=True)}
    ceilings = {device: rated_ceilings(device, gpu) for device, gpu in specs.items()}
    launched = _launched(shown)
    launches = [list(map(launched.__getitem__, own)) for own in analysis.members]
    ids = {id(launch): kernel.id for kernel, own in zip(kernels, launches, strict=True) for launch in own}
    kernels = tuple(with_operators(shown, kernels, launches, specs, ceilings))
    timeline = _timeline(traces, gpus, numbers, ids, ceilings)
    session = replace(analysis.session, ceilings=(), kernels=kernels, timeline=timeline)
    sequences = chain.from_iterable(sequences_of(trace, ids) for trace in shown)
    return Analysis(session, analysis.recorded, sequences=tuple(sequences))


def _only(trace: Trace, ids: Container[int]) -> Trace:
    """Return a trace with only the activities that have these ids."""
    return replace(trace, activities=tuple(own for own in trace.activities if id(own) in ids))


def _timeline(
    traces: Sequence[Trace],
    gpus: Sequence[TracedGpu],
    numbers: Mapping[tuple[int, int], int],
    ids: Mapping[int, int],
    ceilings: Mapping[int, Sequence[Ceiling]],
) -> Timeline:
    ranks = _most(trace.ranks for trace in traces)
    drawn = drawn_kernels(gpus, ids)
    alone: list[DeviceTimeline] = []
    waits: list[Wait] = []
    for gpu in gpus:
        pauses = list(judged_pauses(gpu))
        alone.append(device_timeline(gpu, pauses, numbers[gpu.source, gpu.ordinal], drawn))
        waits += waits_of(gpu, pauses, ids)
    devices = tuple(with_waits(alone, gpus, ranks))
    loops = [judged_loop(source, trace, devices) for source, trace in enumerate(traces)]
    flop = (model_flop(loop, gpus, ceilings) for loop in loops)
    return Timeline(
        devices=devices,
        steps=tuple(chain.from_iterable(map(step_times, loops))),
        waits=tuple(sorted(waits, key=lambda wait: -wait.idle_s)),
        rank=traces[0].rank if len(traces) == 1 else None,
        ranks=ranks,
        peak_memory_bytes=_most(trace.peak_memory_bytes for trace in traces),
        source_ranks=tuple(trace.rank for trace in traces),
        model_flop=tuple(filter(None, flop)),
    )


def _most(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def _timed_only(kernel: KernelProfile, number: int) -> KernelProfile:
    """Leave of a kernel what a timeline can show, under its number, and say once that it has no counters."""
    source = "trace" if kernel.duration_s is not None else None
    return replace(kernel, id=number, work=(), traffic=(), roofline=(), missing=(_NO_COUNTERS,), duration_source=source)


def _launched(traces: Iterable[Trace]) -> list[Activity]:
    """Return the kernels of traces, launch by launch."""
    return [activity for trace in traces for activity in trace.activities if activity.is_kernel]
