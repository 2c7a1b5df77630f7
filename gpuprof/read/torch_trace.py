"""Reads what PyTorch's profiler (Kineto) records: each GPU activity with the operator and the ranges of its launch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from msgspec import Struct, field

from gpuprof.code.tools.demangle import demangled
from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.sources import TORCH_TRACE
from gpuprof.model.torch_ranges import MODULE
from gpuprof.read.timeline_parts import (
    LaunchOrigin,
    WaitSpan,
    controls_profiler,
    device_numbers,
    host_waits,
    impossible,
    launches_graph,
    left_out,
    open_at_places,
    since_epoch,
    waits_for_gpu,
)
from gpuprof.read.torch_json import TraceJson, count, dims, nanoseconds, text_of
from gpuprof.read.torch_program import products, steps, that_launched
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
from gpuprof.timeline.torch_pointwise import POINTWISE
from gpuprof.timeline.trace import (
    COPY,
    KERNEL,
    MEMORY,
    PROFILER_STEP,
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

_CALL, _OPERATOR, _ANNOTATION, _PYTHON, _OVERHEAD = "call", "operator", "annotation", "python", "overhead"
_ROLES = {
    **dict.fromkeys(("kernel", "Kernel"), KERNEL),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), COPY),
    **dict.fromkeys(("gpu_memset", "Memset"), SET),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), _CALL),
    **dict.fromkeys(("cpu_op", "Operator"), _OPERATOR),
    "user_annotation": _ANNOTATION,
    "python_function": _PYTHON,
    "overhead": _OVERHEAD,
}
"""What events are, by their category: today's names and those of 2021."""
_ARGS = {
    name: name
    for name in (
        *("device", "stream", "correlation", "External id", "external id", "graph node id"),
        *("grid", "block", "registers per thread", "shared memory", "bytes"),
        *("Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs"),
        *(COLLECTIVE_NAME, "Group size", "In msg nelems", "Out msg nelems", "dtype", "Seq"),
        *("Process Group Name", "Process Group Ranks"),
    )
}
"""The arguments of events that are kept, as shared strings."""
_FLOWS = ("ac2g", "async")
_OPTIONS = {"with_stack": STACKS, "record_shapes": SHAPES, "profile_memory": MEMORY}
_OWN_OVERHEAD = ("Buffer Flush", "Instrumentation", "Resource", "Activity Buffer Request", "UVM Activity Init")
"""CUPTI's own work among its overhead. The rest is CUDA's, such as "Lazy Function Loading", which comes without it."""
_STEP = re.compile(rf"{PROFILER_STEP}#\d+")
_AMD_NAME = re.compile(r"\b(?:AMD|Radeon|Instinct|gfx\d+)", re.IGNORECASE)
_AMD_WARP = 64
_CUDA_DEVICE_TYPE = 1
"""c10::DeviceType::CUDA, in the events of the memory profiler."""
_LAUNCHES = re.compile(r"cu(?:da)?(?:Graph)?(?:Launch(?!HostFunc)|Memcpy|Memset)\w*")
_TRACE_GPU = "trace the GPU too: torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
_TRACE_WORK = (
    "profile in the process that uses the GPU, such as a worker, and let its steps come in the window: see wait and "
    "warmup of torch.profiler.schedule"
)
_TRACE_AGAIN = (
    "record a longer window that ends after torch.cuda.synchronize(), with no other profiler, such as nsys, beside it"
)
_READABLE = "gpuprof reads traces of PyTorch's profiler, and what nsys export --type sqlite writes"


class _Event(NamedTuple):
    """Something that took time; `start` and `end` in nanoseconds, `duration` None where none was recorded."""

    name: str
    role: str
    start: int
    end: int
    duration: int | None
    thread: str
    process: int | None
    args: Mapping[str, Any]


class _Events(Struct):
    """The events of a trace, by what they are."""

    gpu: list[_Event] = field(default_factory=list)
    calls: dict[int, LaunchOrigin] = field(default_factory=dict)
    graph_launches: set[int] = field(default_factory=set)
    waits: list[WaitSpan] = field(default_factory=list)
    operators: list[_Event] = field(default_factory=list)
    annotations: list[_Event] = field(default_factory=list)
    steps: list[_Event] = field(default_factory=list)
    modules: list[_Event] = field(default_factory=list)
    flows: list[dict[str, Any]] = field(default_factory=list)
    origin: int | None = None
    end: int = 0
    called: bool = False
    launched: bool = False
    untimed: int = 0
    impossible: list[tuple[str, object]] = field(default_factory=list)
    hip: bool = False
    profiler_calls: bool = False
    peak_memory_bytes: int | None = None
    overhead: list[_Event] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)


def read_trace_file(path: Path, sha256: str) -> Trace:
    """Read a file that PyTorch's profiler wrote, as `read_torch_trace` does."""
    with path.open("rb") as file, no_search_for_garbage():
        return read_torch_trace(file, str(path), sha256)


def read_torch_trace(file: BinaryIO, name: str, sha256: str) -> Trace:
    """Read a trace of PyTorch, compressed or not.

    Raises DamagedInput for a broken one, InputError for one of an AMD GPU or of the CPU alone.
    """
    stream = TraceJson(file, name)
    events = _sorted_out(stream.events())
    trace = stream.fields
    used = device_numbers(map(_device_id, events.gpu), name)
    properties = _properties(trace.get("deviceProperties"))
    _refuse_amd(events, [properties.get(number, {}) for number in used], name)
    if not events.gpu:
        raise _without_gpu(events, name, of_torch=bool(properties))
    origin = events.origin if events.origin is not None else 0
    places = _places(events)
    operators = open_at_places(events.operators, places)
    calls = that_launched(products(events.operators), operators.values())
    recorded = _demangled(list(_activities(events, used, origin, places, operators, calls)))
    activities = sorted(recorded, key=attrgetter("start_s"))
    distributed = trace.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    surveyed = trace.get("gpuprof")
    surveyed = surveyed if isinstance(surveyed, dict) else {}
    modules, ranges = events.modules or _outermost_modules(events.annotations, surveyed), surveyed.get("ranges")
    return Trace(
        file=name,
        sha256=sha256,
        kind=TORCH_TRACE,
        tool="torch.profiler",
        tool_version=None,
        devices=tuple(_device(properties.get(number, {})) for number in used),
        activities=tuple(activities),
        steps=tuple(steps(events.steps, events.annotations, modules, origin)),
        rank=count(distributed.get("rank")),
        ranks=count(distributed.get("world_size")),
        peak_memory_bytes=events.peak_memory_bytes,
        created_s=since_epoch((count(trace.get("baseTimeNanoseconds")) or 0) + origin),
        warnings=(*left_out(events.untimed), *impossible(events.impossible)),
        products=_products(calls, origin),
        from_start=surveyed.get("from_start") is True,
        host_waits=host_waits(events.waits, origin) if events.calls else None,
        profiler_calls=events.profiler_calls,
        hook_ranges=frozenset(map(str, ranges)) if isinstance(ranges, list) else None,
        recorded=frozenset(events.recorded.union(what for option, what in _OPTIONS.items() if trace.get(option))),
        overhead=tuple(_overhead(events.overhead, origin)),
    )


def _overhead(spans: Iterable[_Event], origin: int) -> Iterator[ProfilerOverhead]:
    for span in sorted(spans, key=attrgetter("start")):
        yield ProfilerOverhead(span.name, (span.start - origin) / 1e9, (span.end - origin) / 1e9)


def _outermost_modules(annotations: Iterable[_Event], surveyed: Mapping[str, Any]) -> list[_Event]:
    """Return the annotations of a survey that are calls of outermost modules: it names those modules."""
    names = surveyed.get("modules")
    return [span for span in annotations if span.name in names] if isinstance(names, list) else []


def recorded_products(recorded: Iterable[object]) -> tuple[MatrixProduct, ...]:
    """Return the calls that multiply matrices among the events of a trace, also those on the CPU."""
    events = _sorted_out(recorded)
    return _products(products(events.operators), events.origin or 0)


def _products(calls: Iterable[_Event], origin: int) -> tuple[MatrixProduct, ...]:
    return tuple(product(call.name, (call.start - origin) / 1e9, call.args) for call in calls)


def _sorted_out(recorded: Iterable[object]) -> _Events:
    """Look at each event once and keep those that matter."""
    events = _Events()
    for event in recorded:
        if not isinstance(event, dict):
            continue
        phase = event.get("ph")
        if phase == "X":
            _add(event, events)
        elif phase in ("s", "f"):
            if event.get("cat") in _FLOWS:
                events.flows.append(event)
        elif phase == "i" and event.get("name") == "[memory]":
            events.recorded.add(MEMORY)
            _add_memory(_args(event), events)
    return events


def _add(event: dict[str, Any], events: _Events) -> None:
    category = event.get("cat")
    role = _ROLES.get(category) if isinstance(category, str) else None
    start, duration = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
    of_gpu = role in (KERNEL, COPY, SET)
    # Kineto writes 0 for both times of events whose times it has lost (pytorch/kineto#109).
    if start is None or start == 0 == duration:
        events.untimed += of_gpu
        return
    if events.origin is None or start < events.origin:
        events.origin = start
    events.end = max(events.end, start + (duration or 0))
    _note_options(event, role, events)
    if role is None or (role == _PYTHON and not str(event.get("name")).startswith(MODULE)):
        return
    lasted = duration if duration is not None and duration > 0 else None
    args = {_ARGS[key]: value for key, value in _args(event).items() if key in _ARGS}
    name, process = text_of(event.get("name")) or "unnamed", count(event.get("pid"))
    if of_gpu and event.get("dur") is not None and (duration is None or duration < 0):
        events.impossible.append((name, f"{event['dur']} µs"))
    end, thread = start + (lasted or 0), _thread(event)
    span = _Event(name, role, start, end=end, duration=lasted, thread=thread, process=process, args=args)
    if role == _CALL:
        events.hip = events.hip or name.startswith("hip")
        events.called = True
        events.profiler_calls = events.profiler_calls or controls_profiler(name)
        events.launched = events.launched or _LAUNCHES.fullmatch(name) is not None
        correlation = count(args.get("correlation"))
        if correlation is not None:
            events.calls.setdefault(correlation, LaunchOrigin(thread, start, process))
            if launches_graph(name):
                events.graph_launches.add(correlation)
        if waits_for_gpu(name):
            events.waits.append(WaitSpan(start, end, process))
    elif role == _ANNOTATION or (role == _OPERATOR and "#" in name):
        # Traces of 2021 have no category for annotations; PyTorch's own ones, unlike operators, have this sign.
        (events.steps if _STEP.fullmatch(name) else events.annotations).append(span)
    elif role == _OVERHEAD:
        if name in _OWN_OVERHEAD:
            events.overhead.append(span)
    elif role == _PYTHON:
        events.modules.append(span)
    else:
        (events.operators if role == _OPERATOR else events.gpu).append(span)


def _note_options(event: Mapping[str, Any], role: str | None, events: _Events) -> None:
    """Note what the profiler was asked to record, as far as an event shows it."""
    if role == _PYTHON:
        events.recorded.add(STACKS)
    if role == _OPERATOR and not _args(event).keys().isdisjoint(("Input Dims", "Input dims")):
        events.recorded.add(SHAPES)


def _add_memory(args: Mapping[str, Any], events: _Events) -> None:
    """Keep the most that tensors took on a GPU, or that PyTorch reserved for them where that alone was recorded."""
    if args.get("Device Type") == _CUDA_DEVICE_TYPE:
        total = count(args.get("Total Allocated"))
        total = total if total is not None else count(args.get("Total Reserved"))
        if total is not None:
            events.peak_memory_bytes = max(total, events.peak_memory_bytes or 0)


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _thread(event: Mapping[str, Any]) -> str:
    return f"{event.get('pid')}/{event.get('tid')}"


def _device_id(event: _Event) -> int:
    """Return the number of the GPU: in traces a GPU is also the process of what it does."""
    number = count(event.args.get("device"))
    return number if number is not None else event.process or 0


def _properties(recorded: object) -> dict[int, Mapping[str, Any]]:
    by_number: dict[int, Mapping[str, Any]] = {}
    for entry in recorded if isinstance(recorded, list) else []:
        number = count(entry.get("id")) if isinstance(entry, dict) else None
        if number is not None:
            by_number.setdefault(number, entry)
    return by_number


def _refuse_amd(events: _Events, used: Iterable[Mapping[str, Any]], name: str) -> None:
    """Raise InputError for a trace of an AMD GPU."""
    amd = next((properties for properties in used if _is_amd(properties)), None)
    if events.hip or amd is not None:
        called = text_of(amd.get("name")) if amd is not None else None
        device = f" ({called:.100})" if called is not None else ""
        raise InputError(
            f"{name} is a trace of an AMD GPU{device}; gpuprof supports NVIDIA GPUs only",
            "use AMD's rocprof-compute, or trace on an NVIDIA GPU",
        )


def _without_gpu(events: _Events, name: str, *, of_torch: bool) -> InputError:
    """Say why no GPU did anything: by the calls of CUDA, which are recorded only where the GPU is traced, too."""
    if events.launched:
        return InputError(f"{name} has calls of CUDA that launch something, but not what the GPU did", _TRACE_AGAIN)
    if events.called:
        window_s = (events.end - (events.origin or 0)) / 1e9
        what = f"nothing was launched on a GPU in the {format_si(window_s, 's')} that it recorded"
        return InputError(f"{name} is a trace without GPU activity: {what}", _TRACE_WORK)
    if events.operators or events.annotations or events.steps or events.modules:
        return InputError(f"{name} is a trace without GPU activity: only the CPU was traced", _TRACE_GPU)
    what = f"{name} is a trace without GPU activity: it has no kernels and no copies"
    return InputError(what, _TRACE_GPU if of_torch else _READABLE)


def _is_amd(properties: Mapping[str, Any]) -> bool:
    name = text_of(properties.get("name")) or ""
    return properties.get("warpSize") == _AMD_WARP or _AMD_NAME.search(name) is not None


def _device(properties: Mapping[str, Any]) -> RecordedDevice:
    major, minor = count(properties.get("computeMajor")), count(properties.get("computeMinor"))
    return RecordedDevice(
        name=text_of(properties.get("name")),
        compute_capability=f"{major}.{minor}" if major is not None and minor is not None else None,
        sm_count=count(properties.get("numSms")) or None,
        memory_bytes=count(properties.get("totalGlobalMem")) or None,
    )


def _activities(
    events: _Events,
    used: list[int],
    origin: int,
    places: Sequence[LaunchOrigin | None],
    operators: Mapping[LaunchOrigin, Sequence[_Event]],
    calls: Iterable[_Event],
) -> Iterator[Activity]:
    """Yield what the GPUs did, each with what was open where it was launched: operators, and one of the `calls`."""
    index = {number: position for position, number in enumerate(used)}
    numbers = {id(call): number for number, call in enumerate(calls)}
    ranges = open_at_places(chain(events.annotations, events.modules), places)
    moved = _operand_bytes(places, operators)
    for event, place in zip(events.gpu, places, strict=True):
        launchers = operators.get(place, ()) if place is not None else ()
        around = ranges.get(place, ()) if place is not None else ()
        yield Activity(
            kind=event.role,
            name=_name(event),
            device=index[_device_id(event)],
            start_s=(event.start - origin) / 1e9,
            duration_s=event.duration / 1e9 if event.duration is not None else None,
            stream=count(event.args.get("stream")),
            grid=dims(event.args.get("grid")),
            block=dims(event.args.get("block")),
            registers_per_thread=count(event.args.get("registers per thread")) or None,
            shared_bytes=count(event.args.get("shared memory")),
            bytes=count(event.args.get("bytes")),
            ranges=tuple(span.name for span in around),
            operator=operator_with_shapes(launchers[-1].name, launchers[-1].args) if launchers else None,
            process=place.process if place is not None else None,
            collective=_collective(event, launchers),
            launched_s=(place.at - origin) / 1e9 if place is not None else None,
            call=count(event.args.get("correlation")),
            product=next((numbers[id(launcher)] for launcher in launchers if id(launcher) in numbers), None),
            graph_launch=_graph_launch(event, events.graph_launches),
            operand_bytes=moved.get(id(launchers[-1])) if launchers and event.role == KERNEL else None,
            memory=memory(event.name) if event.role == COPY else None,
        )


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


def _operand_bytes(
    places: Iterable[LaunchOrigin | None],
    operators: Mapping[LaunchOrigin, Sequence[_Event]],
) -> dict[int, int]:
    """Return the bytes of point-wise operators that launched one thing on a GPU, by the identity of the operator."""
    launchers = [operators[place][-1] for place in places if place is not None and operators.get(place)]
    launches = Counter(map(id, launchers))
    moved = {
        id(launcher): operand_bytes(launcher.name, launcher.args)
        for launcher in launchers
        if launcher.name in POINTWISE and launches[id(launcher)] == 1
    }
    return {number: size for number, size in moved.items() if size is not None}


def _graph_launch(event: _Event, launches: Container[int]) -> int | None:
    """Return the correlation of the launch of a graph that an activity was a part of: its call or its node says so."""
    correlation = count(event.args.get("correlation"))
    return correlation if correlation in launches or count(event.args.get("graph node id")) else None


def _name(event: _Event) -> str:
    if event.role == KERNEL:
        return event.name
    return direction(event.name) if event.role == COPY else SET


def _collective(event: _Event, launchers: Sequence[_Event]) -> Collective | None:
    """Return what a communication kernel does by its own fields, else by those of the operator that launched it."""
    if event.role != KERNEL or "nccl" not in event.name.lower():
        return None
    told = (span.args for span in (event, *reversed(launchers)) if COLLECTIVE_NAME in span.args)
    return collective(next(told, {}))


def _places(events: _Events) -> list[LaunchOrigin | None]:
    """Return where each GPU activity was launched: by the call of its correlation, else by what else links the two."""
    places = [_call(event, events.calls) for event in events.gpu]
    if None in places:
        links = _OtherLinks(events)
        places = [place or links.place(event) for place, event in zip(places, events.gpu, strict=True)]
    return places


def _call(event: _Event, calls: Mapping[int, LaunchOrigin]) -> LaunchOrigin | None:
    correlation = count(event.args.get("correlation"))
    return calls.get(correlation) if correlation is not None else None


class _OtherLinks:
    """Finds launches whose call was not recorded: by the arrow that is drawn from it, else by the operator's id."""

    def __init__(self, events: _Events) -> None:
        self._starts: dict[int, LaunchOrigin] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._operators: dict[int, LaunchOrigin] = {}
        for flow in events.flows:
            number, at = count(flow.get("id")), nanoseconds(flow.get("ts"))
            if number is None or at is None:
                continue
            if flow["ph"] == "s":
                self._starts.setdefault(number, LaunchOrigin(_thread(flow), at, count(flow.get("pid"))))
            else:
                self._ends.setdefault((_thread(flow), at), number)
        for operator in chain(events.operators, events.annotations):
            number = count(operator.args.get("External id"))
            if number is not None:
                self._operators.setdefault(number, LaunchOrigin(operator.thread, operator.start, operator.process))

    def place(self, event: _Event) -> LaunchOrigin | None:
        """Return where an activity was launched, or where the operator that launched it began."""
        correlation = count(event.args.get("correlation"))
        number = correlation if correlation in self._starts else self._ends.get((event.thread, event.start))
        if number is not None and number in self._starts:
            return self._starts[number]
        external = count(event.args.get("External id", event.args.get("external id")))
        # Some traces write the correlation there; it is no operator's id.
        return self._operators.get(external) if external is not None and external != correlation else None
