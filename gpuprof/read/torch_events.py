"""The events of a PyTorch trace, sorted by what they are, and kept in a form that takes little memory."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from gpuprof.model.recorded import Dim3
from gpuprof.model.torch_ranges import MODULE
from gpuprof.read.timeline_parts import (
    LaunchOrigin,
    WaitSpan,
    controls_profiler,
    launches_graph,
    launches_work,
    waits_for_gpu,
)
from gpuprof.read.torch_json import TraceEvent, count, decoded, dims, nanoseconds, text_of
from gpuprof.read.torch_words import COLLECTIVE_NAME, collective
from gpuprof.timeline.torch_flop import PRODUCTS
from gpuprof.timeline.torch_pointwise import POINTWISE
from gpuprof.timeline.trace import COPY, KERNEL, MEMORY, PROFILER_STEP, SET, SHAPES, STACKS, Collective

GPU_ROLES = {
    **dict.fromkeys(("kernel", "Kernel"), KERNEL),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), COPY),
    **dict.fromkeys(("gpu_memset", "Memset"), SET),
}
_CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
_OPERATORS = ("cpu_op", "Operator")
_ANNOTATION, _PYTHON, _OVERHEAD = "user_annotation", "python_function", "overhead"
"""The categories of events: today's names and those of 2021."""
_FLOWS = ("ac2g", "async")
_OWN_OVERHEAD = ("Buffer Flush", "Instrumentation", "Resource", "Activity Buffer Request", "UVM Activity Init")
"""CUPTI's own work among its overhead. The rest is CUDA's, such as "Lazy Function Loading", which comes without it."""
_CUDA_DEVICE_TYPE = 1
"""c10::DeviceType::CUDA, in the events of the memory profiler."""
_HOUR_NS = 3600 * 10**9
"""Longer than nothing happens in a trace."""
_NO_NUMBER = -1
_NEVER = 2**63
_MOST_MARKS = 1000
"""Categories and processes that are kept; a trace has a few dozens."""
_RANGE = "cuda_profiler_range"
_UNNAMED = "unnamed"
STEP = re.compile(rf"{PROFILER_STEP}#\d+")


class Origin(NamedTuple):
    """The thread of an event, and its process where that is a number."""

    thread: str
    process: int | None


class Named(Struct):
    """What calls of an operator or range have in common: a name, and the arguments that matter. `text` is for users."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    is_operator: bool = False


class Span(Struct, frozen=True, gc=False):
    """A call of an operator or a range, in nanoseconds."""

    what: Named
    start: int
    end: int
    thread: str

    @property
    def name(self) -> str:
        """What was called."""
        return self.what.name

    @property
    def args(self) -> Mapping[str, Any]:
        """What the trace says of it."""
        return self.what.args

    @property
    def duration(self) -> int | None:
        """How long it took; None where that was not recorded."""
        return self.end - self.start or None


class GpuEvent(Struct, gc=False):
    """Something that a GPU did, in nanoseconds; `duration` None where none was recorded.

    `launcher` is the number of the operator that launched it, `shape` its grid, block, registers and shared memory.
    """

    role: str
    name: str
    start: int
    duration: int | None
    thread: str
    device: int
    stream: int | None
    correlation: int | None
    launcher: int | None
    in_graph: bool
    shape: tuple[Dim3 | None, Dim3 | None, int | None, int | None]
    bytes: int | None
    collective: Collective | None


class _OperatorArgs(Struct, gc=False):
    dims: Raw = field(name="Input Dims", default=Raw())
    old_dims: Raw = field(name="Input dims", default=Raw())
    types: Raw = field(name="Input type", default=Raw())
    strides: Raw = field(name="Input Strides", default=Raw())
    settings: Raw = field(name="Concrete Inputs", default=Raw())
    collective: Raw = field(name=COLLECTIVE_NAME, default=Raw())
    number: Any = field(name="External id", default=None)


class _CallArgs(Struct, gc=False):
    correlation: Any = None


_ANY_ARGS, _LIST = msgspec.json.Decoder(dict[str, Any]), msgspec.json.Decoder(list[Any])
_OPERATOR_ARGS, _CALL_ARGS = msgspec.json.Decoder(_OperatorArgs), msgspec.json.Decoder(_CallArgs)


class Spans:
    """Spans and moments in rows of five numbers; `whats` and `origins` are those of the whole trace."""

    def __init__(self, whats: list[Named], origins: list[Origin]) -> None:
        self._whats, self._origins = whats, origins
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self._rows) // 5

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return zip(*[iter(self._rows)] * 5, strict=True)

    def add(self, what: int, origin: int, start: int, end: int, number: int | None) -> None:
        """Add a span; `number` is what other events call it."""
        self._rows.extend((what, origin, start, end, _NO_NUMBER if number is None else number))

    def every(self, wanted: Callable[[str], bool] = bool) -> list[Span]:
        """Return all spans with wanted names, in the order of the file."""
        wanted_whats = [wanted(what.name) for what in self._whats]
        return [self._span(row) for row in self if wanted_whats[row[0]]]

    def around(self, places: Iterable[LaunchOrigin | None]) -> list[Span]:
        """Return the spans that were open at one of the places, in the order of the file."""
        moments: defaultdict[Hashable, set[int]] = defaultdict(set)
        for place in places:
            if place is not None:
                moments[place.thread].add(place.at)
        ordered = [sorted(moments.get(origin.thread, ())) for origin in self._origins]
        spans = []
        for row in self:
            _, origin, start, end, _ = row
            own = ordered[origin]
            following = bisect_left(own, start)
            if following < len(own) and own[following] <= end:
                spans.append(self._span(row))
        return spans

    def places(self, wanted: Container[int | None] | None = None) -> Iterator[tuple[int, LaunchOrigin]]:
        """Yield where and when those began that have a number, a wanted one if these are given."""
        for _, origin, start, _, number in self:
            if number != _NO_NUMBER and (wanted is None or number in wanted):
                thread, process = self._origins[origin]
                yield number, LaunchOrigin(thread, start, process)

    def keep(self, within: Callable[[int, int], bool]) -> None:
        """Drop the spans that begin or end outside the trace."""
        self._rows = array("q", chain.from_iterable(row for row in self if within(row[2], row[3])))

    def clear(self) -> None:
        """Drop all spans, whose memory is needed."""
        del self._rows[:]

    def _span(self, row: Sequence[int]) -> Span:
        what, origin, start, end, _ = row
        return Span(self._whats[what], start, end, self._origins[origin].thread)


class _Hour(Struct):
    """An hour of the clock: how many events began in it after zero, when the first of the CPU began and one ended."""

    votes: int = 0
    first: int = _NEVER
    last: int = -_NEVER


class Clock:
    """Finds the time of a trace: the hours in a row that have most of its events. What is far off is a wrong time."""

    def __init__(self) -> None:
        self._hours: dict[int, _Hour] = {}

    def note(self, start: int, end: int, *, of_gpu: bool) -> None:
        """Count an event."""
        number = start // _HOUR_NS
        hour = self._hours.get(number)
        if hour is None:
            hour = self._hours[number] = _Hour()
        hour.votes += start != 0
        if start < hour.first and not of_gpu:
            hour.first = start
        hour.last = max(hour.last, end)

    def span(self) -> tuple[int, int]:
        """Return from when to when an event is one of the trace."""
        rows: list[list[int]] = [[]]
        for number in sorted(self._hours):
            if rows[-1] and number > rows[-1][-1] + 1:
                rows.append([])
            rows[-1].append(number)
        row = max(rows, key=lambda row: sum(self._hours[number].votes for number in row))
        return (row[0] * _HOUR_NS, (row[-1] + 2) * _HOUR_NS) if row else (0, 0)

    def first_and_last(self, start: int, end: int) -> tuple[int, int]:
        """Return when the first event of the CPU after `start` began, and when the last before `end` ended."""
        firsts = (hour.first for number, hour in self._hours.items() if number * _HOUR_NS >= start)
        return min(firsts, default=_NEVER), min(end, max((hour.last for hour in self._hours.values()), default=0))

    def has_outliers(self, start: int, end: int) -> bool:
        """Tell whether an event begins before `start` or ends after `end`."""
        return any(number * _HOUR_NS < start or hour.last > end for number, hour in self._hours.items())


class TraceEvents:
    """The events of a trace, by what they are. `hip`, `called`, `launched`: calls of HIP, of CUDA, and to launch.

    `untimed` GPU activities have no time, by what they are, and `misplaced` ones a wrong one; `impossible` ones have a
    duration that cannot be. `marks` are categories of no use here and processes, which show what wrote the trace.
    `ranges` counts CUPTI's ranges of counters.
    """

    def __init__(self) -> None:
        whats, origins = list[Named](), list[Origin]()
        self.gpu: list[GpuEvent] = []
        self.calls, self.arrow_starts, self.arrow_ends = (Spans(whats, origins) for _ in range(3))
        self.operators, self.annotations, self.steps = (Spans(whats, origins) for _ in range(3))
        self.modules, self.overhead = Spans(whats, origins), Spans(whats, origins)
        self.graph_launches: set[int] = set()
        self.waits: list[WaitSpan] = []
        self.untimed: Counter[str] = Counter()
        self.misplaced: Counter[str] = Counter()
        self.impossible: list[tuple[str, str]] = []
        self.hip = self.called = self.launched = self.profiler_calls = self.of_proton = False
        self.peak_memory_bytes: int | None = None
        self.recorded: set[str] = set()
        self.marks: set[str] = set()
        self.ranges = 0
        self.clock = Clock()
        self._whats, self._origins = whats, origins
        self._what_numbers: dict[Hashable, int] = {}
        self._origin_numbers: dict[Origin, int] = {}
        self._shapes: dict[Hashable, Any] = {}
        self._handlers: dict[str, Callable[[TraceEvent, int, int], None]] = {
            **dict.fromkeys(GPU_ROLES, self._add_gpu),
            **dict.fromkeys(_CALLS, self._add_call),
            **dict.fromkeys(_OPERATORS, self._add_operator),
            _ANNOTATION: self._add_annotation,
            _PYTHON: self._add_python,
            _OVERHEAD: self._add_overhead,
        }

    def add(self, event: TraceEvent) -> None:
        """Keep what matters of an event."""
        phase = event.ph
        if phase == "X":
            self._add_span(event)
        elif phase in ("s", "f"):
            if event.cat in _FLOWS:
                self._add_arrow(event)
        elif phase == "i" and event.name == "[memory]":
            self.recorded.add(MEMORY)
            self._add_memory(_arguments(event))
        elif phase == "M" and event.name == "process_name" and len(self.marks) < _MOST_MARKS:
            self.marks.add(str(_arguments(event).get("name")))

    def settle(self) -> tuple[int, int]:
        """Drop what has no time that can be. Return when the CPU began and when the last event ended."""
        first, last = self.clock.span()
        if not self.clock.has_outliers(first, last):
            return self.clock.first_and_last(first, last)

        def within(start: int, end: int) -> bool:
            return first <= start and end <= last

        for spans in (self.operators, self.annotations, self.steps, self.modules, self.overhead, self.calls):
            spans.keep(within)
        self.waits = [wait for wait in self.waits if within(wait.start, wait.end)]
        for event in self.gpu:
            if not within(event.start, event.start):
                (self.misplaced if event.start else self.untimed)[event.role] += 1
        self.gpu = [event for event in self.gpu if within(event.start, event.start)]
        return self.clock.first_and_last(first, last)

    def _add_span(self, event: TraceEvent) -> None:
        category = event.cat if isinstance(event.cat, str) else ""
        start, duration = nanoseconds(event.ts), nanoseconds(event.dur)
        # CUPTI writes 0 for both times of a kernel that it could not time.
        if start is None or start == 0 == duration:
            if category in GPU_ROLES:
                self.untimed[GPU_ROLES[category]] += 1
            return
        end = start + max(0, duration or 0)
        self.clock.note(start, end, of_gpu=category in GPU_ROLES)
        handler = self._handlers.get(category)
        if handler is not None:
            handler(event, start, end)
        elif category == _RANGE:
            self.ranges += 1
        elif len(self.marks) < _MOST_MARKS:
            self.marks.update((category, str(event.pid)))

    def _add_gpu(self, event: TraceEvent, start: int, end: int) -> None:
        role, name, args = GPU_ROLES[event.cat], _name(event.name), _arguments(event)
        duration = nanoseconds(event.dur)
        if bytes(event.dur) not in (b"", b"null") and (duration is None or duration < 0):
            self.impossible.append((name, f"{bytes(event.dur).decode()} µs"))
        shape = (
            dims(args.get("grid")),
            dims(args.get("block")),
            count(args.get("registers per thread")) or None,
            count(args.get("shared memory")),
        )
        device, correlation = count(args.get("device")), count(args.get("correlation"))
        launcher = count(args.get("External id", args.get("external id")))
        self.of_proton = self.of_proton or "call_stack" in args
        of_nccl = role == KERNEL and COLLECTIVE_NAME in args and "nccl" in name.lower()
        self.gpu.append(
            GpuEvent(
                role=role,
                name=name,
                start=start,
                duration=end - start or None,
                thread=self._origins[self._origin(event)].thread,
                device=device if device is not None else count(event.pid) or 0,
                stream=count(args.get("stream")),
                correlation=correlation,
                # Some traces write the correlation there; it is no operator's number.
                launcher=launcher if launcher != correlation else None,
                in_graph=bool(count(args.get("graph node id"))),
                shape=self._shapes.setdefault(shape, shape),
                bytes=count(args.get("bytes")),
                collective=collective(args) if of_nccl else None,
            )
        )

    def _add_call(self, event: TraceEvent, start: int, end: int) -> None:
        name, args, origin = _name(event.name), decoded(_CALL_ARGS, event.args), self._origin(event)
        self.called = True
        self.hip = self.hip or name.startswith("hip")
        self.launched = self.launched or launches_work(name)
        self.profiler_calls = self.profiler_calls or controls_profiler(name)
        correlation = count(args.correlation) if args is not None else None
        if correlation is not None:
            self.calls.add(0, origin, start, start, correlation)
            if launches_graph(name):
                self.graph_launches.add(correlation)
        if waits_for_gpu(name):
            self.waits.append(WaitSpan(start, end, self._origins[origin].process, self._origins[origin].thread))

    def _add_operator(self, event: TraceEvent, start: int, end: int) -> None:
        name = _name(event.name)
        if "#" in name:
            # Traces of 2021 have no category for annotations; PyTorch's own ones, unlike operators, have this sign.
            self._add_annotation(event, start, end)
            return
        args = decoded(_OPERATOR_ARGS, event.args) or _OperatorArgs()
        written = _needed(name, args)
        if "Input Dims" in written:
            self.recorded.add(SHAPES)
        key = (name, *written.items(), bytes(event.args) if bytes(args.collective) else None)
        what = self._what_numbers.get(key)
        if what is None:
            values: dict[str, Any] = {argument: decoded(_LIST, Raw(value)) for argument, value in written.items()}
            if bytes(args.collective):
                values |= _arguments(event)
            what = self._define(key, Named(name, values, is_operator=True))
        self.operators.add(what, self._origin(event), start, end, count(args.number))

    def _add_annotation(self, event: TraceEvent, start: int, end: int) -> None:
        name = _name(event.name)
        args = decoded(_OPERATOR_ARGS, event.args)
        spans = self.steps if STEP.fullmatch(name) else self.annotations
        self._add_range(spans, event, start, end, count(args.number) if args is not None else None)

    def _add_python(self, event: TraceEvent, start: int, end: int) -> None:
        self.recorded.add(STACKS)
        if str(event.name).startswith(MODULE):
            self._add_range(self.modules, event, start, end)

    def _add_overhead(self, event: TraceEvent, start: int, end: int) -> None:
        if event.name in _OWN_OVERHEAD:
            self._add_range(self.overhead, event, start, end)

    def _add_range(self, spans: Spans, event: TraceEvent, start: int, end: int, number: int | None = None) -> None:
        name = _name(event.name)
        what = self._what_numbers.get(name)
        if what is None:
            what = self._define(name, Named(name))
        spans.add(what, self._origin(event), start, end, number)

    def _add_arrow(self, event: TraceEvent) -> None:
        number, at = count(event.id), nanoseconds(event.ts)
        if number is not None and at is not None:
            arrows = self.arrow_starts if event.ph == "s" else self.arrow_ends
            arrows.add(0, self._origin(event), at, at, number)

    def _add_memory(self, args: Mapping[str, Any]) -> None:
        """Keep the most that tensors took on a GPU, or that PyTorch reserved for them if that alone was recorded."""
        if args.get("Device Type") == _CUDA_DEVICE_TYPE:
            total = count(args.get("Total Allocated"))
            total = total if total is not None else count(args.get("Total Reserved"))
            if total is not None:
                self.peak_memory_bytes = max(total, self.peak_memory_bytes or 0)

    def _define(self, key: Hashable, what: Named) -> int:
        self._whats.append(what)
        self._what_numbers[key] = len(self._whats) - 1
        return len(self._whats) - 1

    def _origin(self, event: TraceEvent) -> int:
        origin = Origin(f"{event.pid}/{event.tid}", count(event.pid))
        number = self._origin_numbers.get(origin)
        if number is None:
            number = self._origin_numbers[origin] = len(self._origins)
            self._origins.append(origin)
        return number


def _name(written: object) -> str:
    return _known_name(written) if isinstance(written, str) else _UNNAMED


@lru_cache(2**16)
def _known_name(written: str) -> str:
    """Return a name, of equal ones the same object."""
    return text_of(written) or _UNNAMED


def _arguments(event: TraceEvent) -> dict[str, Any]:
    return decoded(_ANY_ARGS, event.args) or {}


def _needed(name: str, args: _OperatorArgs) -> dict[str, bytes]:
    """Return the arguments of an operator that matter, as written."""
    written = {"Input Dims": bytes(args.dims) or bytes(args.old_dims)}
    if name in PRODUCTS or name in POINTWISE:
        written["Input type"], written["Input Strides"] = bytes(args.types), bytes(args.strides)
    if name in PRODUCTS:
        written["Concrete Inputs"] = bytes(args.settings)
    return {argument: value for argument, value in written.items() if value}
