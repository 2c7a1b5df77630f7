"""What a recorded timeline means: how busy each GPU was, its pauses, copies, communication and steps. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.model.analyse import Analysis, HardwareOf, analyse, device_numbers
from gpuprof.model.groups import percentile
from gpuprof.model.intervals import TimeInterval, common, length, merged
from gpuprof.model.mfu import model_flop, rated_ceilings
from gpuprof.model.recorded import DictMetrics, Launch, Metric, Missing, Report
from gpuprof.model.session import (
    Ceiling,
    Communication,
    Copies,
    DeviceTimeline,
    Gaps,
    KernelProfile,
    ModelFlop,
    Timeline,
    Wait,
)
from gpuprof.model.steps import loop_of, step_times
from gpuprof.model.trace import (
    COPY,
    KERNEL,
    MEMORY_SET,
    SET,
    TRY,
    Activity,
    Collective,
    Trace,
    is_communication,
)

TRACE = "trace"
SHORT_PAUSE_S, LONG_PAUSE_S = 20e-6, 1e-3
"""A shorter pause is about what launching takes; in a longer one the program did something else."""
_ROUNDING_S = 0.5e-9
"""Times are whole nanoseconds: what is shorter is no pause, but comes of adding them up as fractions."""
_NO_COUNTERS = Missing("counters", "a timeline has times only", "profile the program: gpuprof run -- PROGRAM")


class _Pause(NamedTuple):
    """A time in which a GPU did nothing, what ended it, and the first kernel from then on.

    `unsure` says that the last thing before it, on any stream, has no time: it may have filled the pause.
    """

    length_s: float
    end: Activity
    kernel: Activity | None
    unsure: bool


def analyse_traces(traces: Sequence[Trace], hardware_of: HardwareOf, version: str) -> Analysis:
    """Return a session of the kernels of traces, with their timeline; nothing of it is diagnosed yet."""
    reports = [as_report(trace) for trace in traces]
    analysis = analyse(reports, hardware_of, version, one_of_a_kind=True)
    numbers = device_numbers(reports)
    kernels = tuple(_timed_only(kernel) for kernel in analysis.session.kernels)
    gpus = {one.device: recorded.hardware.gpu for one, recorded in zip(kernels, analysis.recorded, strict=True)}
    ceilings = {number: rated_ceilings(number, gpu) for number, gpu in gpus.items()}
    timeline = _timeline(traces, numbers, kernels, ceilings)
    session = replace(analysis.session, ceilings=(), kernels=kernels, timeline=timeline)
    return Analysis(session, analysis.recorded)


def _timeline(
    traces: Sequence[Trace],
    numbers: dict[tuple[int, int], int],
    kernels: Sequence[KernelProfile],
    ceilings: Mapping[int, Sequence[Ceiling]],
) -> Timeline:
    return Timeline(
        devices=tuple(_devices(traces, numbers)),
        steps=tuple(step_times(traces)),
        waits=tuple(sorted(_waits(traces, numbers, kernels), key=lambda wait: -wait.idle_s)),
        rank=next((trace.rank for trace in traces if len(traces) == 1), None),
        ranks=max((trace.ranks for trace in traces if trace.ranks is not None), default=None),
        peak_memory_bytes=max(
            (trace.peak_memory_bytes for trace in traces if trace.peak_memory_bytes is not None), default=None
        ),
        source_ranks=tuple(trace.rank for trace in traces),
        model_flop=tuple(_model_flop(traces, numbers, ceilings)),
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
        rank=trace.rank,
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
        for index, ones in _by_gpu(trace):
            yield _device(source, index, numbers[source, index], ones)


def _by_gpu(trace: Trace) -> Iterator[tuple[int, list[Activity]]]:
    """Yield the GPUs of a trace that did something, with what each did."""
    for index in range(len(trace.devices)):
        ones = [one for one in trace.activities if one.device == index]
        if ones:
            yield index, ones


def _device(source: int, ordinal: int, device: int, ones: Sequence[Activity]) -> DeviceTimeline:
    busy = merged(map(_interval, ones))
    kernels = [one for one in ones if one.kind == KERNEL]
    return DeviceTimeline(
        source=source,
        ordinal=ordinal,
        device=device,
        span_s=busy[-1][1] - busy[0][0],
        busy_s=length(busy),
        kernel_s=length(merged(map(_interval, kernels))),
        gaps=_gaps(list(_pauses(ones))),
        copies=tuple(_copies(ones)),
        communication=_communication(kernels),
        untimed=sum(one.duration_s is None for one in ones),
    )


def _interval(one: Activity) -> TimeInterval:
    return one.start_s, one.start_s + (one.duration_s or 0.0)


def _pauses(ones: Sequence[Activity]) -> Iterator[_Pause]:
    """Yield the pauses of a GPU, whose activities come in the order of their start."""
    kernels = _next_kernels(ones)
    end = _interval(ones[0])[0]
    untimed: set[int | None] = set()
    for place, one in enumerate(ones):
        if one.start_s > end + _ROUNDING_S:
            yield _Pause(one.start_s - end, one, kernels[place], bool(untimed))
            untimed.clear()
        # What comes next on a stream begins after the one before has ended.
        (untimed.add if one.duration_s is None else untimed.discard)(one.stream)
        end = max(_interval(one)[1], end)


def _next_kernels(ones: Sequence[Activity]) -> list[Activity | None]:
    """Return for each activity the first kernel from it on."""
    found: list[Activity | None] = []
    following = None
    for one in reversed(ones):
        following = one if one.kind == KERNEL else following
        found.append(following)
    return found[::-1]


def _gaps(found: Sequence[_Pause]) -> Gaps | None:
    pauses = sorted(pause.length_s for pause in found)
    if not pauses:
        return None
    return Gaps(
        count=len(pauses),
        total_s=sum(pauses),
        median_s=percentile(pauses, 50),
        longest_s=pauses[-1],
        short_s=sum(pause for pause in pauses if pause < SHORT_PAUSE_S),
        long_s=sum(pause for pause in pauses if pause >= LONG_PAUSE_S),
        unsure_s=sum(pause.length_s for pause in found if pause.unsure),
    )


def _copies(ones: Sequence[Activity]) -> Iterator[Copies]:
    """Yield the copies by direction, then settings of memory, those that take most time first."""
    found: dict[str, list[Activity]] = {}
    for one in ones:
        if one.kind in (COPY, SET):
            found.setdefault(_movement(one), []).append(one)
    every = [_copies_of(direction, some) for direction, some in found.items()]
    yield from sorted(every, key=lambda copies: -(copies.time_s or 0.0))


def _movement(one: Activity) -> str:
    return MEMORY_SET if one.kind == SET else TRY if one.kind == TRY else one.name


def _copies_of(direction: str, ones: Sequence[Activity]) -> Copies:
    timed = [one for one in ones if one.duration_s is not None and one.bytes is not None]
    sized = [one.bytes for one in ones if one.bytes is not None]
    times = [one.duration_s for one in ones if one.duration_s is not None]
    moving_s = sum(one.duration_s or 0.0 for one in timed)
    rate = sum(one.bytes or 0 for one in timed) / moving_s if moving_s else None
    return Copies(
        direction=direction,
        count=len(ones),
        bytes=sum(sized) if sized else None,
        time_s=sum(times) if times else None,
        bytes_per_s=rate,
    )


def _communication(kernels: Sequence[Activity]) -> Communication | None:
    talking = [one for one in kernels if is_communication(one.name)]
    if not talking:
        return None
    union = merged(map(_interval, talking))
    others = merged(_interval(one) for one in kernels if not is_communication(one.name))
    return Communication(
        launches=len(talking),
        time_s=length(union),
        exposed_s=length(union) - common(union, others),
        bus_bytes_per_s=_bus_rate(talking),
    )


def _bus_rate(ones: Sequence[Activity]) -> float | None:
    """Return the bytes that each link carried over the time of the kernels whose size is known."""
    sized = [(one.duration_s, _bus_bytes(one.collective)) for one in ones if one.duration_s and one.collective]
    known = [(seconds, moved) for seconds, moved in sized if seconds is not None and moved is not None]
    seconds = sum(seconds for seconds, _ in known)
    return sum(moved for _, moved in known) / seconds if seconds else None


def _bus_bytes(done: Collective) -> float | None:
    """Return bytes × the factor by which NCCL's tests make bus bandwidth of it (nccl-tests, PERFORMANCE.md).

    None where that is not known, and for barriers and waits, whose time is not that of moving bytes.
    """
    name = done.name.lower().replace("_", "")
    if not done.bytes or done.ranks is None or done.ranks < 2 or "barrier" in name:
        return None
    others = done.ranks - 1
    if "allreduce" in name:
        return done.bytes * 2 * others / done.ranks
    if "allgather" in name:
        return float(done.bytes * others)
    if "reducescatter" in name or "alltoall" in name:
        return done.bytes * others / done.ranks
    return float(done.bytes)


def _model_flop(
    traces: Sequence[Trace], numbers: Mapping[tuple[int, int], int], ceilings: Mapping[int, Sequence[Ceiling]]
) -> Iterator[ModelFlop]:
    for source, trace in enumerate(traces):
        of_gpus = [ceilings.get(numbers[source, index], ()) for index in range(len(trace.devices))]
        found = model_flop(source, trace, loop_of(trace), of_gpus)
        if found is not None:
            yield found


def _waits(
    traces: Sequence[Trace], numbers: dict[tuple[int, int], int], kernels: Sequence[KernelProfile]
) -> Iterator[Wait]:
    """Add up, for each GPU, the pauses that launches of a kernel ended, and those that copies of a direction ended."""
    ids = {_key(one.source, one.device, one.demangled, one): one.id for one in kernels}
    for source, trace in enumerate(traces):
        for index, ones in _by_gpu(trace):
            found: dict[str, dict[int | None, list[float]]] = {}
            for pause in _pauses(ones):
                before = KERNEL if pause.end.kind == KERNEL else _movement(pause.end)
                number = _kernel_id(ids, source, numbers[source, index], pause.kernel)
                found.setdefault(before, {}).setdefault(number, []).append(pause.length_s)
            for before, of_kernel in found.items():
                if before == KERNEL:
                    yield from (
                        Wait(
                            source=source, ordinal=index, before=KERNEL, kernel=one, idle_s=sum(some), pauses=len(some)
                        )
                        for one, some in of_kernel.items()
                    )
                else:
                    every = [length for some in of_kernel.values() for length in some]
                    yield Wait(
                        source=source,
                        ordinal=index,
                        before=before,
                        kernel=_longest(of_kernel),
                        idle_s=sum(every),
                        pauses=len(every),
                    )


def _kernel_id(ids: Mapping[tuple[object, ...], int], source: int, device: int, launch: Activity | None) -> int | None:
    return ids.get(_key(source, device, launch.name, launch)) if launch is not None else None


def _longest(of_kernel: Mapping[int | None, Sequence[float]]) -> int | None:
    """Return the kernel that came next after most of the time of pauses."""
    known = {number: sum(lengths) for number, lengths in of_kernel.items() if number is not None}
    return max(known, key=lambda number: known[number], default=None)


def _key(source: int, device: int, name: str, one: Activity | KernelProfile) -> tuple[object, ...]:
    ranges = _ranges(one) if isinstance(one, Activity) else one.ranges
    return source, device, name, one.grid, one.block, ranges
