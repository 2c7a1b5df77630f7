"""Reads what PyTorch's profiler (Kineto) records: each GPU activity with the operator and the ranges of its launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

from gpuprof.code.tools.demangle import demangled
from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.sources import TORCH_TRACE
from gpuprof.model.torch_ranges import OPTIMIZER_CALL
from gpuprof.read.step_ranges import step_name
from gpuprof.read.timeline_parts import (
    LaunchOrigin,
    device_numbers,
    host_waits,
    impossible,
    open_at_places,
    since_epoch,
)
from gpuprof.read.torch_events import GpuEvent, Named, Span, Spans, TraceEvents
from gpuprof.read.torch_foreign import refuse_other_producers
from gpuprof.read.torch_json import TraceJson, count, text_of
from gpuprof.read.torch_program import products, steps, that_launched
from gpuprof.read.torch_times import correct_times, without_times
from gpuprof.read.torch_words import (
    COLLECTIVE_NAME,
    collective,
    direction,
    memory,
    operand_bytes,
    operator_with_shapes,
    product,
)
from gpuprof.store.read import no_search_for_garbage
from gpuprof.timeline.attention import SDPA_MATH
from gpuprof.timeline.torch_pointwise import POINTWISE
from gpuprof.timeline.trace import (
    COPY,
    KERNEL,
    MEMORY,
    SET,
    SHAPES,
    STACKS,
    Activity,
    Collective,
    MatrixProduct,
    ProfilerOverhead,
    Trace,
)
from gpuprof.units import format_si

_OPTIONS = {"with_stack": STACKS, "record_shapes": SHAPES, "profile_memory": MEMORY}
_TRACE_GPU = "trace the GPU too: torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
_TRACE_WORK = (
    "profile in the process that uses the GPU, such as a worker, and let its steps come in the window: see wait and "
    "warmup of torch.profiler.schedule"
)
_TRACE_AGAIN = (
    "record a longer window that ends after torch.cuda.synchronize(), with no other profiler, such as nsys, beside it"
)
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
    """Read a trace of PyTorch, compressed or not. With `salvage` what is damaged of it is left out.

    Raises DamagedInput for a broken one, InputError for one of another accelerator, of another tool, or of the CPU
    alone.
    """
    stream = TraceJson(file, name, salvage=salvage)
    events = TraceEvents()
    for event in stream.events():
        events.add(event)
    fields = stream.fields
    first, last = events.settle()
    properties = _properties(fields.get("deviceProperties"))
    refuse_other_producers(events, fields, properties, name)
    places = correct_times(events, _places(events))
    if not events.gpu:
        raise _without_gpu(events, (last - first) / 1e9, name, of_torch=bool(properties))
    origin = min(chain([first], (event.start for event in events.gpu)))
    used = device_numbers((event.device for event in events.gpu), name)
    distributed, surveyed = _mapping(fields.get("distributedInfo")), _mapping(fields.get("gpuprof"))
    ranges = surveyed.get("ranges")
    # A survey of gpuprof itself counts steps by what its next run can count, too: calls.
    marked = events.annotations.every() if not surveyed else ()
    optimizers = events.annotations.every(_is_optimizer)
    program_steps = steps(events.steps.every(), marked, optimizers, _modules(events, surveyed), origin)
    marks = {step.name for step in program_steps}
    called = len(events.calls) > 0
    for links in (events.calls, events.arrow_starts, events.arrow_ends):
        links.clear()
    warnings = (*stream.warnings, *without_times(events), *impossible(events.impossible), *_unread_ranges(events))
    overhead = tuple(_overhead(events.overhead, origin))
    activities, calls, waited_in = _activities(events, used, origin, places, marks)
    waits = host_waits(events.waits, origin, waited_in) if called else None
    return Trace(
        file=name,
        sha256=sha256,
        kind=TORCH_TRACE,
        tool="torch.profiler",
        tool_version=None,
        devices=tuple(_device(properties.get(number, {})) for number in used),
        activities=activities,
        steps=tuple(program_steps),
        rank=count(distributed.get("rank")),
        ranks=count(distributed.get("world_size")),
        peak_memory_bytes=events.peak_memory_bytes,
        created_s=since_epoch((count(fields.get("baseTimeNanoseconds")) or 0) + origin),
        warnings=warnings,
        products=_products(calls, origin),
        from_start=surveyed.get("from_start") is True,
        host_waits=waits,
        profiler_calls=events.profiler_calls,
        hook_ranges=frozenset(map(str, ranges)) if isinstance(ranges, list) else None,
        recorded=frozenset(events.recorded.union(what for option, what in _OPTIONS.items() if fields.get(option))),
        overhead=overhead,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_optimizer(name: str) -> bool:
    return OPTIMIZER_CALL.fullmatch(name) is not None


def _modules(events: TraceEvents, surveyed: Mapping[str, Any]) -> list[Span]:
    """Return calls of modules; of a survey those of the outermost modules, whose names it has."""
    names = surveyed.get("modules")
    if len(events.modules) or not isinstance(names, list):
        return events.modules.every()
    return events.annotations.every(names.__contains__)


def _overhead(spans: Spans, origin: int) -> Iterator[ProfilerOverhead]:
    for span in sorted(spans.every(), key=attrgetter("start")):
        yield ProfilerOverhead(span.name, (span.start - origin) / 1e9, (span.end - origin) / 1e9)


def _products(calls: Iterable[Span], origin: int) -> tuple[MatrixProduct, ...]:
    return tuple(product(call.name, (call.start - origin) / 1e9, call.args) for call in calls)


def _properties(recorded: object) -> dict[int, Mapping[str, Any]]:
    by_number: dict[int, Mapping[str, Any]] = {}
    for entry in recorded if isinstance(recorded, list) else []:
        number = count(entry.get("id")) if isinstance(entry, dict) else None
        if number is not None:
            by_number.setdefault(number, entry)
    return by_number


def _unread_ranges(events: TraceEvents) -> Iterator[str]:
    if events.ranges:
        yield f"{_counters(events.ranges)} are not read"


def _counters(ranges: int) -> str:
    return f"counters of CUPTI for {ranges:,} range{'' if ranges == 1 else 's'} (cuda_profiler_range)"


def _without_gpu(events: TraceEvents, window_s: float, name: str, *, of_torch: bool) -> InputError:
    """Say why no GPU did anything: by the calls of CUDA, which are recorded only where the GPU is traced, too."""
    if events.ranges:
        what = f"{_counters(events.ranges)}, which gpuprof does not read, and no times of kernels"
        return InputError(f"{name} has {what}", _TRACE_TIMES)
    if missing := events.untimed.total() + events.misplaced.total():
        what = f"none of its {missing:,} GPU activities has a usable time"
        return InputError(f"{name} has no timeline of a GPU: {what}", _TRACE_AGAIN)
    if events.launched:
        return InputError(f"{name} has calls of CUDA that launch something, but not what the GPU did", _TRACE_AGAIN)
    if events.called:
        what = f"nothing was launched on a GPU in the {format_si(window_s, 's')} that it recorded"
        return InputError(f"{name} is a trace without GPU activity: {what}", _TRACE_WORK)
    if len(events.operators) or len(events.annotations) or len(events.steps) or len(events.modules):
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
    events: TraceEvents,
    used: Sequence[int],
    origin: int,
    places: Sequence[LaunchOrigin | None],
    step_names: Container[str],
) -> tuple[tuple[Activity, ...], list[Span], list[str | None]]:
    """Return what the GPUs did in the order of its start, the products that launched it, and the operators of waits.

    Each activity has what was open at its launch, but no range that is a step. The events are used up: both would take
    much memory.
    """
    moments = [*places, *(wait.place for wait in events.waits)]
    operators = events.operators.around(moments)
    annotations = (span for span in events.annotations.around(moments) if step_name(span.name) not in step_names)
    ranges = chain(annotations, events.modules.around(moments))
    open_spans = open_at_places(chain(operators, ranges), moments)
    calls = that_launched(products(operators), (open_spans[place] for place in places if place is not None))
    del operators
    for column in (events.operators, events.annotations, events.modules):
        column.clear()
    launches = _Launches(open_spans, places, calls, events.graph_launches, origin)
    index = {number: position for position, number in enumerate(used)}
    events.gpu.reverse()
    recorded = [launches.activity(events.gpu.pop(), index, place) for place in places]
    waited_in = [_outermost_operator(open_spans[wait.place]) for wait in events.waits]
    return tuple(sorted(_demangled(recorded), key=attrgetter("start_s"))), calls, waited_in


def _outermost_operator(spans: Iterable[Span]) -> str | None:
    """Return the outermost operator of PyTorch itself."""
    return next((span.name for span in spans if span.what.is_operator and span.name.startswith("aten::")), None)


class _Launches:
    """Makes an activity of a GPU event, with what was open where it was launched."""

    def __init__(
        self,
        open_spans: Mapping[LaunchOrigin, Sequence[Span]],
        places: Sequence[LaunchOrigin | None],
        calls: Iterable[Span],
        graphs: set[int],
        origin: int,
    ) -> None:
        self._open_spans, self._graphs, self._origin = open_spans, graphs, origin
        self._numbers = {id(call): number for number, call in enumerate(calls)}
        self._ranges: dict[tuple[str, ...], tuple[str, ...]] = {}
        innermost = (self._operators(place)[-1:] for place in places)
        self._launched = Counter(id(span) for spans in innermost for span in spans)

    def activity(self, event: GpuEvent, index: Mapping[int, int], place: LaunchOrigin | None) -> Activity:
        """Return the activity of an event that was launched there. `index` are the places of the GPUs by number."""
        launchers = self._operators(place)
        grid, block, registers, shared_bytes = event.shape
        in_graph = event.correlation in self._graphs or event.in_graph
        return Activity(
            kind=event.role,
            name=_name(event),
            device=index[event.device],
            start_s=(event.start - self._origin) / 1e9,
            duration_s=event.duration / 1e9 if event.duration is not None else None,
            stream=event.stream,
            grid=grid,
            block=block,
            registers_per_thread=registers,
            shared_bytes=shared_bytes,
            bytes=event.bytes,
            ranges=self._ranges_at(place),
            operator=_operator_text(launchers[-1].what) if launchers else None,
            process=place.process if place is not None else None,
            collective=_collective(event, launchers),
            launched_s=(place.at - self._origin) / 1e9 if place is not None else None,
            call=event.correlation,
            product=next((self._numbers[id(span)] for span in launchers if id(span) in self._numbers), None),
            graph_launch=event.correlation if in_graph else None,
            operand_bytes=self._operand_bytes(launchers[-1]) if launchers and event.role == KERNEL else None,
            memory=memory(event.name) if event.role == COPY else None,
            in_sdpa=any(span.name == SDPA_MATH for span in launchers),
        )

    def _operators(self, place: LaunchOrigin | None) -> list[Span]:
        spans = self._open_spans.get(place, ()) if place is not None else ()
        return [span for span in spans if span.what.is_operator]

    def _ranges_at(self, place: LaunchOrigin | None) -> tuple[str, ...]:
        spans = self._open_spans.get(place, ()) if place is not None else ()
        ranges = tuple(span.name for span in spans if not span.what.is_operator)
        return self._ranges.setdefault(ranges, ranges)

    def _operand_bytes(self, launcher: Span) -> int | None:
        """Return the bytes of a point-wise operator that launched one thing on a GPU."""
        if launcher.name not in POINTWISE or self._launched[id(launcher)] != 1:
            return None
        return operand_bytes(launcher.name, launcher.args)


def _operator_text(what: Named) -> str:
    if what.text is None:
        what.text = operator_with_shapes(what.name, what.args)
    return what.text


def _demangled(activities: list[Activity]) -> list[Activity]:
    """Return activities whose kernels have names as in C++: a survey by CUPTI has mangled ones alone."""
    symbols = dict.fromkeys(one.name for one in activities if one.kind == KERNEL and one.name.startswith("_Z"))
    if not symbols:
        return activities
    names = demangled([*symbols])
    return [
        one._replace(name=names.get(one.name, one.name), mangled=one.name) if one.name in symbols else one
        for one in activities
    ]


def _name(event: GpuEvent) -> str:
    if event.role == KERNEL:
        return event.name
    return direction(event.name) if event.role == COPY else SET


def _collective(event: GpuEvent, launchers: Sequence[Span]) -> Collective | None:
    """Return what a communication kernel does by its own fields, else by those of the operator that launched it."""
    if event.collective is not None or event.role != KERNEL or "nccl" not in event.name.lower():
        return event.collective
    told = (span.args for span in reversed(launchers) if COLLECTIVE_NAME in span.args)
    return collective(next(told, {}))


def _places(events: TraceEvents) -> list[LaunchOrigin | None]:
    """Return where each GPU activity was launched: by the call of its correlation, else by what else links the two."""
    calls: dict[int | None, LaunchOrigin] = {}
    wanted = {event.correlation for event in events.gpu}
    for number, call in events.calls.places(wanted):
        calls.setdefault(number, call)
    places = [calls.get(event.correlation) for event in events.gpu]
    if None in places:
        links = _OtherLinks(events)
        places = [place or links.place(event) for place, event in zip(places, events.gpu, strict=True)]
    return places


class _OtherLinks:
    """Finds launches whose call was not recorded: by the arrow that is drawn from it, else by the operator's id."""

    def __init__(self, events: TraceEvents) -> None:
        self._starts: dict[int, LaunchOrigin] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._operators: dict[int, LaunchOrigin] = {}
        for number, place in events.arrow_starts.places():
            self._starts.setdefault(number, place)
        for number, place in events.arrow_ends.places():
            self._ends.setdefault((str(place.thread), place.at), number)
        for number, place in chain(events.operators.places(), events.annotations.places()):
            self._operators.setdefault(number, place)

    def place(self, event: GpuEvent) -> LaunchOrigin | None:
        """Return where an activity was launched, or where the operator that launched it began."""
        number = event.correlation
        if number not in self._starts:
            number = self._ends.get((event.thread, event.start))
        if number is not None and number in self._starts:
            return self._starts[number]
        return self._operators.get(event.launcher) if event.launcher is not None else None
