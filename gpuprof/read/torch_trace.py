"""Reads what PyTorch's profiler (Kineto) records: each GPU activity with the operator and the ranges of its launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

from gpuprof.errors import DamagedInput, InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.sources import TORCH_TRACE
from gpuprof.model.torch_ranges import MODULE, OPTIMIZER_CALL
from gpuprof.read.step_ranges import step_name
from gpuprof.read.timeline_parts import (
    CpuCall,
    controls_profiler,
    count,
    device_numbers,
    impossible,
    launches_work,
    open_at_places,
    program_steps,
    since_epoch,
)
from gpuprof.read.torch_events import GpuEvent, Span, TraceEvents
from gpuprof.read.torch_foreign import refuse_other_accelerators
from gpuprof.read.torch_json import AGAIN, TraceJson, mapping, text_of
from gpuprof.read.torch_program import products, steps
from gpuprof.read.torch_times import correct_times, settle_times, without_times
from gpuprof.read.torch_words import (
    COLLECTIVE_NAME,
    blocks,
    collective,
    direction,
    memory,
    operand_bytes,
    product,
)
from gpuprof.sass.tools.demangle import demangled
from gpuprof.store.read import no_search_for_garbage
from gpuprof.timeline.trace import (
    COPY,
    KERNEL,
    MEMORY,
    SDPA_MATH,
    SET,
    SHAPES,
    STACKS,
    Activity,
    Collective,
    HostWait,
    Trace,
)
from gpuprof.units import format_si

_RANGE = "cuda_profiler_range"
"""The category of counters that CUPTI has for a range of kernels."""
_OPTIONS = {"with_stack": STACKS, "record_shapes": SHAPES, "profile_memory": MEMORY}
_BEFORE = CpuCall(None, -(2**62), -(2**62), None)
"""In place of the calls before the recording, which are not in the trace."""
_TRACE_GPU = "trace the GPU too: torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
_TRACE_WORK = (
    "profile in the process that uses the GPU, such as a worker, and let its steps come in the window: see wait and "
    "warmup of torch.profiler.schedule"
)
_TRACE_AGAIN = (
    "record a longer window that ends after torch.cuda.synchronize(), with no other profiler, such as nsys, beside it"
)
_OTHER_RELEASE = "this is a fault of the profiler: record it again with another release of PyTorch"
_TRACE_TIMES = (
    "for times of kernels record it without profiler_metrics in experimental_config; for counters: "
    "gpuprof run -- PROGRAM"
)
_READABLE = "gpuprof reads traces of PyTorch's profiler, and what nsys export --type sqlite writes"


def read_trace_file(path: Path, sha256: str, *, salvage: bool = False) -> Trace:
    """Read a file that PyTorch's profiler wrote, as `read_torch_trace` does."""
    with path.open("rb") as file, no_search_for_garbage():
        return read_torch_trace(file, str(path), sha256, salvage=salvage)


def read_torch_trace(file: BinaryIO, name: str, sha256: str, *, salvage: bool = False) -> Trace:
    """Read a trace of PyTorch, compressed or not. With `salvage` damaged events are left out.

    Raises DamagedInput for a broken one, InputError for one of another accelerator, or of the CPU alone.
    """
    stream = TraceJson(file, name, salvage=salvage)
    events = TraceEvents()
    for event in stream.events():
        events.add(event)
    fields = stream.fields
    properties = _properties(fields.get("deviceProperties"))
    refuse_other_accelerators(events, properties, name)
    first = settle_times(events)
    _find_launches(events)
    correct_times(events, first)
    left_out = [*stream.left_out()]
    if not events.gpu:
        if left_out:
            raise DamagedInput(f"{name} is damaged before the first GPU activity: {'; '.join(left_out)}", AGAIN)
        raise _without_gpu(events, name, first, of_torch=bool(properties))
    origin = min(event.start for event in events.gpu)
    origin = origin if first is None else min(origin, first)
    used = device_numbers((event.device for event in events.gpu), name)
    distributed, surveyed = mapping(fields.get("distributedInfo")), mapping(fields.get("gpuprof"))
    ranges = surveyed.get("ranges")
    # A survey of gpuprof itself counts steps by what its next run can count, too: calls.
    marked = [] if surveyed else events.ranges.every(lambda name: not name.startswith(MODULE))
    optimizers = events.ranges.every(OPTIMIZER_CALL.fullmatch)
    launched = [event.place for event in events.gpu if event.place is not None]
    found = steps(events.steps.every(), marked, optimizers, _modules(events, surveyed), launched)
    if stream.is_cut_off:
        # Any step may lack kernels: those of a trace do not come in the order of their launch.
        found = []
    events.calls.clear()
    missing = [*left_out, *without_times(events)]
    activities, calls, waits = _activities(events, used, origin, {step.name for step in found})
    return Trace(
        file=name,
        sha256=sha256,
        kind=TORCH_TRACE,
        tool="torch.profiler",
        tool_version=None,
        devices=tuple(_device(properties.get(number, {})) for number in used),
        activities=activities,
        steps=program_steps(found, origin),
        rank=count(distributed.get("rank")),
        ranks=count(distributed.get("world_size")),
        peak_memory_bytes=events.peak_memory_bytes,
        created_s=since_epoch((count(fields.get("baseTimeNanoseconds")) or 0) + origin),
        warnings=tuple(_warnings(stream, events, missing)),
        products=tuple(product(call.name, (call.start - origin) / 1e9, call.args) for call in calls),
        from_start=surveyed.get("from_start") is True,
        host_waits=waits if events.call_names else None,
        profiler_calls=any(map(controls_profiler, events.call_names)),
        hook_ranges=frozenset(map(str, ranges)) if isinstance(ranges, list) else None,
        recorded=frozenset(events.recorded.union(what for option, what in _OPTIONS.items() if fields.get(option))),
        overhead=tuple(((start - origin) / 1e9, (end - origin) / 1e9) for start, end in sorted(events.overhead)),
        incomplete=bool(missing),
    )


def _warnings(stream: TraceJson, events: TraceEvents, missing: Iterable[str]) -> Iterator[str]:
    yield from (*stream.warnings, *events.warnings, *missing, *impossible(events.impossible))
    if counters := _counters(events):
        yield f"{counters} are not read"


def _find_launches(events: TraceEvents) -> None:
    """Set the call that launched each GPU activity: the one of its correlation, else the operator of its number.

    A call that copies to pageable memory waits for the copy.
    """
    calls = events.calls.places({event.correlation for event in events.gpu})
    waits = [calls.get(event.correlation) for event in events.gpu if event.role == COPY and blocks(event.name)]
    events.waits.extend(filter(None, waits))
    launchers = {event.launcher for event in events.gpu if event.correlation not in calls}
    operators = events.ranges.places(launchers) | events.operators.places(launchers)
    for event in events.gpu:
        event.place = calls.get(event.correlation) or operators.get(event.launcher)
    _find_earlier(events)


def _find_earlier(events: TraceEvents) -> None:
    """Mark the activities that were launched before the recording.

    They have lower correlations than all recorded calls and start before all that their stream did later. If a later
    activity has no call, either, calls are missing, and none is marked.
    """
    unknown = [event for event in events.gpu if event.place is None and event.correlation is not None]
    if any((event.correlation or 0) >= events.first_call for event in unknown):
        return
    firsts: dict[Hashable, int] = {}
    for event in events.gpu:
        if event.place is not None:
            stream = event.device, event.stream
            firsts[stream] = min(firsts.get(stream, event.start), event.start)
    for event in unknown if firsts else ():
        if event.start <= firsts.get((event.device, event.stream), event.start):
            event.place = _BEFORE


def _modules(events: TraceEvents, surveyed: Mapping[str, Any]) -> list[Span]:
    """Return calls of modules; of a survey those of the outermost modules, whose names it has."""
    names = surveyed.get("modules")
    modules = events.ranges.every(lambda name: name.startswith(MODULE))
    return modules or events.ranges.every((names if isinstance(names, list) else []).__contains__)


def _properties(recorded: object) -> dict[int, Mapping[str, Any]]:
    by_number: dict[int, Mapping[str, Any]] = {}
    for entry in recorded if isinstance(recorded, list) else []:
        number = count(mapping(entry).get("id"))
        if number is not None:
            by_number.setdefault(number, entry)
    return by_number


def _counters(events: TraceEvents) -> str:
    ranges = events.others[_RANGE]
    return f"counters of CUPTI for {ranges:,} range{'' if ranges == 1 else 's'} ({_RANGE})" if ranges else ""


def _without_gpu(events: TraceEvents, name: str, first: int | None, *, of_torch: bool) -> InputError:
    """Return why there is no GPU activity, by the calls of CUDA: these are recorded only if the GPU is traced, too."""
    if counters := _counters(events):
        what = f"{counters}, which gpuprof does not read, and no times of kernels"
        return InputError(f"{name} has {what}", _TRACE_TIMES)
    if missing := events.untimed.total() + events.misplaced.total():
        what = f"none of its {missing:,} GPU activities has a usable time"
        return InputError(f"{name} has no timeline of a GPU: {what}", _OTHER_RELEASE)
    if any(map(launches_work, events.call_names)):
        return InputError(f"{name} has calls of CUDA that launch something, but not what the GPU did", _TRACE_AGAIN)
    if events.call_names and first is not None:
        what = f"nothing was launched on a GPU in the {format_si((events.last - first) / 1e9, 's')} that it recorded"
        return InputError(f"{name} is a trace without GPU activity: {what}", _TRACE_WORK)
    if any(map(len, (events.operators, events.ranges, events.steps))):
        return InputError(f"{name} is a trace without GPU activity: only the CPU was traced", _TRACE_GPU)
    what = f"{name} is a trace without GPU activity: it has no kernels and no copies"
    return InputError(what, _TRACE_GPU if of_torch else _READABLE)


def _device(properties: Mapping[str, Any]) -> RecordedDevice:
    major, minor = count(properties.get("computeMajor")), count(properties.get("computeMinor"))
    return RecordedDevice(
        name=text_of(properties.get("name")),
        compute_capability=f"{major}.{minor}" if major is not None and minor is not None else None,
        sm_count=count(properties.get("numSms")) or None,
        memory_bytes=count(properties.get("totalGlobalMem")) or None,
    )


def _activities(
    events: TraceEvents, used: Sequence[int], origin: int, step_names: Container[str]
) -> tuple[tuple[Activity, ...], list[Span], tuple[HostWait, ...]]:
    """Return what the GPUs did in the order of its start, the products that launched it, and waits for it.

    Each activity has what was open at its launch, but no range that is a step. The events are used up: both would take
    much memory.
    """
    moments = [*(event.place for event in events.gpu), *events.waits]
    operators = events.operators.around(moments)
    ranges = [span for span in events.ranges.around(moments) if step_name(span.name) not in step_names]
    open_spans = open_at_places([*operators, *ranges], moments)
    launchers = {id(span) for event in events.gpu for span in open_spans.get(event.place, ())}
    # Other calls ran on the CPU, or only recorded a graph.
    calls = [call for call in products(operators) if id(call) in launchers]
    del operators, launchers, moments
    for spans in events.cpu:
        spans.clear()
    recorded = _recorded(events, open_spans, calls, used, origin)
    waits = [
        call.as_wait(origin, _outermost_operator(open_spans[call]))
        for call in sorted(dict.fromkeys(events.waits), key=attrgetter("end"))
    ]
    return tuple(sorted(recorded, key=attrgetter("start_s"))), calls, tuple(waits)


def _outermost_operator(spans: Iterable[Span]) -> str | None:
    """Return the outermost operator of PyTorch itself."""
    return next((span.name for span in _operators(spans) if span.name.startswith("aten::")), None)


def _operators(spans: Iterable[Span]) -> list[Span]:
    return [span for span in spans if span.what.operator is not None]


def _recorded(
    events: TraceEvents,
    open_spans: Mapping[CpuCall | None, Sequence[Span]],
    calls: Iterable[Span],
    used: Sequence[int],
    origin: int,
) -> Iterator[Activity]:
    """Yield what the GPUs did, with what was open at its launch. `used` are the numbers of the GPUs."""
    numbers = {id(call): number for number, call in enumerate(calls)}
    launched = Counter(id(span) for event in events.gpu for span in _operators(open_spans.get(event.place, ()))[-1:])
    kernel_names = _kernel_names(events.gpu)
    events.gpu.reverse()
    while events.gpu:
        event = events.gpu.pop()
        place, spans = event.place, open_spans.get(event.place, ())
        launchers = _operators(spans)
        launcher = launchers[-1] if launchers else None
        is_alone = event.role == KERNEL and launched[id(launcher)] == 1
        ranges = tuple(span.name for span in spans if span.what.operator is None)
        grid, block, registers, shared_bytes = event.shape
        yield Activity(
            kind=event.role,
            name=_name(event, kernel_names),
            mangled=event.name if event.name in kernel_names else None,
            device=used.index(event.device),
            start_s=(event.start - origin) / 1e9,
            duration_s=event.duration / 1e9 if event.duration is not None else None,
            stream=event.stream,
            grid=grid,
            block=block,
            registers_per_thread=registers,
            shared_bytes=shared_bytes,
            bytes=event.bytes,
            ranges=events.shared.setdefault(ranges, ranges),
            operator=launcher.what.operator if launcher is not None else None,
            process=place.process if place is not None else None,
            collective=_collective(event, launchers),
            launched_s=(place.start - origin) / 1e9 if place is not None else None,
            queued_s=(event.start - place.end) / 1e9 if place is not None else None,
            call=event.correlation,
            product=next((numbers[id(span)] for span in launchers if id(span) in numbers), None),
            graph_launch=event.correlation if event.in_graph or event.correlation in events.graph_launches else None,
            operand_bytes=operand_bytes(launcher.name, launcher.args) if launcher is not None and is_alone else None,
            memory=memory(event.name) if event.role == COPY else None,
            in_sdpa=any(span.name == SDPA_MATH for span in launchers),
        )


def _kernel_names(events: Iterable[GpuEvent]) -> Mapping[str, str]:
    """Return the names in C++ of kernels whose recorded ones are mangled: a survey by CUPTI has no others."""
    return demangled(sorted({event.name for event in events if event.role == KERNEL and event.name.startswith("_Z")}))


def _name(event: GpuEvent, kernel_names: Mapping[str, str]) -> str:
    if event.role == KERNEL:
        return kernel_names.get(event.name, event.name)
    return direction(event.name) if event.role == COPY else SET


def _collective(event: GpuEvent, launchers: Sequence[Span]) -> Collective | None:
    """Return what a communication kernel does by its own fields, else by those of the operator that launched it."""
    if event.collective is not None or event.role != KERNEL or "nccl" not in event.name.lower():
        return event.collective
    named = (span.args for span in reversed(launchers) if COLLECTIVE_NAME in span.args)
    return collective(next(named, {}))
