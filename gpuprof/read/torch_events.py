"""The events of a PyTorch trace, sorted by what they are, and kept in a form that takes little memory."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from gpuprof.model.groups import by_key
from gpuprof.model.recorded import Dim3
from gpuprof.model.torch_ranges import MODULE
from gpuprof.read.step_ranges import ThreadSpan
from gpuprof.read.timeline_parts import CpuCall, count, launches_graph, waits_for_gpu
from gpuprof.read.torch_json import TraceEvent, decoded, dims, mapping, nanoseconds, text_of
from gpuprof.read.torch_words import COLLECTIVE_NAME, collective, operator_with_shapes
from gpuprof.timeline.torch_flop import PRODUCTS
from gpuprof.timeline.torch_pointwise import POINTWISE
from gpuprof.timeline.trace import COPY, KERNEL, MEMORY, PROFILER_STEP, SET, SHAPES, STACKS, Collective

DAY_NS = 24 * 3600 * 10**9
_GPU_ROLES = {
    **dict.fromkeys(("kernel", "Kernel"), KERNEL),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), COPY),
    **dict.fromkeys(("gpu_memset", "Memset"), SET),
}
_CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
_OPERATORS = ("cpu_op", "Operator")
"""Categories of events: today's names and those of 2021."""
_OWN_OVERHEAD = ("Buffer Flush", "Instrumentation", "Resource", "Activity Buffer Request", "UVM Activity Init")
"""CUPTI's own work among its overhead. The rest is CUDA's, such as "Lazy Function Loading", which comes without it."""
_NEEDED = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
"""Arguments of operators that matter: of most only the first, and the last only of products."""
_CUDA_DEVICE_TYPE = 1
"""c10::DeviceType::CUDA, in the events of the memory profiler."""
_NO_NUMBER = -1
Origin = tuple[str, int | None]
"""The thread of an event, and its process if that is a number."""
_UNNAMED = "unnamed"
_STEP = re.compile(rf"{PROFILER_STEP}#\d+")


class Named(Struct):
    """What calls of an operator or range have in common: a name, and of an operator the arguments that matter.

    `operator` is an operator's name with shapes, for users.
    """

    name: str
    args: Mapping[str, Any] = {}
    operator: str | None = None


class Span(ThreadSpan, frozen=True, gc=False):
    """A call of an operator or a range."""

    what: Named

    @property
    def name(self) -> str:
        """What was called."""
        return self.what.name

    @property
    def args(self) -> Mapping[str, Any]:
        """What the trace says of it."""
        return self.what.args


class GpuEvent(Struct, gc=False):
    """Something that a GPU did, in nanoseconds; `duration` is None if none was recorded.

    `launcher` is the number of the operator that launched it, `shape` its grid, block, registers and shared memory, and
    `place` where it was launched, once that is known.
    """

    role: str
    name: str
    start: int
    duration: int | None
    device: int
    stream: int | None
    correlation: int | None
    launcher: int | None
    in_graph: bool
    shape: tuple[Dim3 | None, Dim3 | None, int | None, int | None]
    bytes: int | None
    collective: Collective | None
    place: CpuCall | None = None


class _CpuArgs(Struct, gc=False):
    dims: Raw = field(name="Input Dims", default=Raw())
    old_dims: Raw = field(name="Input dims", default=Raw())
    types: Raw = field(name="Input type", default=Raw())
    strides: Raw = field(name="Input Strides", default=Raw())
    settings: Raw = field(name="Concrete Inputs", default=Raw())
    collective: Raw = field(name=COLLECTIVE_NAME, default=Raw())
    number: Any = field(name="External id", default=None)
    correlation: Any = None


_CPU_ARGS = msgspec.json.Decoder(_CpuArgs)


class Spans:
    """Spans in rows of five numbers; `whats` and `origins` are those of the whole trace."""

    def __init__(self, whats: list[Named], origins: list[Origin]) -> None:
        self._whats, self._origins = whats, origins
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self._rows) // 5

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return zip(*[iter(self._rows)] * 5, strict=True)

    def add(self, what: int, origin: int, start: int, end: int, number: int | None = None) -> None:
        """Add a span; `number` is what other events call it."""
        self._rows.extend((what, origin, start, end, _NO_NUMBER if number is None else number))

    def every(self, wanted: Callable[[str], object] = bool) -> list[Span]:
        """Return all spans with wanted names, in the order of the file."""
        wanted_whats = [wanted(what.name) for what in self._whats]
        return [self._span(row) for row in self if wanted_whats[row[0]]]

    def around(self, places: Iterable[CpuCall | None]) -> list[Span]:
        """Return the spans that were open at one of the places, in the order of the file."""
        moments = by_key((place.thread, place.start) for place in places if place is not None)
        ordered = [sorted(moments.get(thread, ())) for thread, _ in self._origins]
        spans = []
        for row in self:
            _, origin, start, end, _ = row
            own = ordered[origin]
            following = bisect_left(own, start)
            if following < len(own) and own[following] <= end:
                spans.append(self._span(row))
        return spans

    def places(self, wanted: Set[int | None]) -> dict[int | None, CpuCall]:
        """Return where and when the first ones with wanted numbers began."""
        places: dict[int | None, CpuCall] = {}
        for _, origin, start, end, number in self if wanted else ():
            if number in wanted and number not in places:
                thread, process = self._origins[origin]
                places[number] = CpuCall(thread, start, end, process)
        return places

    def keep(self, within: Callable[[int, int], bool]) -> None:
        """Keep only the spans whose start and end pass."""
        self._rows = array("q", chain.from_iterable(row for row in self if within(row[2], row[3])))

    def clear(self) -> None:
        """Drop all spans, whose memory is needed."""
        del self._rows[:]

    def _span(self, row: Sequence[int]) -> Span:
        what, origin, start, end, _ = row
        thread, _ = self._origins[origin]
        return Span(thread, start, end, self._whats[what])


class TraceEvents:
    """The events of a trace, by what they are. `call_names` are those of calls of CUDA, and
    `first_call` is the lowest of their numbers, 0 without any.

    `waits` are calls that waited for a GPU. `untimed` GPU activities have no time, by what they are,
    and `misplaced` ones a wrong one; `impossible` ones have a duration that cannot be. `others` counts events by
    categories that are of no use here. `days` counts events by the day in which they began, `firsts` are the first of
    the CPU in each day, and `last` is when all of these had ended.
    `shared` has one object of each value that many events have, which saves memory.
    """

    def __init__(self) -> None:
        self._whats, self._origins = list[Named](), list[Origin]()
        self._what_numbers, self._origin_numbers = dict[Hashable, int](), dict[Origin, int]()
        self.shared = dict[Hashable, Any]()
        self.gpu = list[GpuEvent]()
        self.cpu = tuple(Spans(self._whats, self._origins) for _ in range(4))
        self.operators, self.ranges, self.steps, self.calls = self.cpu
        self.call_names, self.graph_launches, self.recorded = set[str](), set[int](), set[str]()
        self.waits, self.overhead = list[CpuCall](), list[tuple[int, int]]()
        self.untimed, self.misplaced, self.others = Counter[str](), Counter[str](), Counter[str]()
        self.impossible = list[tuple[str, str]]()
        self.peak_memory_bytes: int | None = None
        self.first_call, self.warnings = 0, list[str]()
        self.days, self.firsts, self.last = Counter[int](), dict[int, int](), 0

    def add(self, event: TraceEvent) -> None:
        """Keep what matters of an event."""
        if event.ph == "X":
            self._add_span(event)
        elif event.ph == "i" and event.name == "[memory]":
            self._add_memory(mapping(decoded(event.args)))

    def _add_span(self, event: TraceEvent) -> None:
        category = event.cat if isinstance(event.cat, str) else ""
        role = _GPU_ROLES.get(category)
        start, duration = nanoseconds(event.ts), nanoseconds(event.dur)
        # CUPTI writes 0 for both times of a kernel that it could not time.
        if start is None or start == 0 == duration:
            if role is not None:
                (self.untimed if start == 0 or event.ts is None else self.misplaced)[role] += 1
            return
        end = start + max(0, duration or 0)
        day = start // DAY_NS
        self.days[day] += start != 0
        if role is not None:
            self._add_gpu(event, role, start, end)
            return
        self.firsts[day] = min(self.firsts.get(day, start), start)
        self.last = max(self.last, end)
        if category == "python_function":
            self.recorded.add(STACKS)
            if str(event.name).startswith(MODULE):
                self._add_range(event, start, end)
        elif category in _OPERATORS:
            self._add_operator(event, start, end)
        elif category in _CALLS:
            self._add_call(event, start, end)
        elif category == "user_annotation":
            self._add_range(event, start, end)
        elif category != "overhead":
            self.others[category] += 1
        elif event.name in _OWN_OVERHEAD:
            self.overhead.append((start, end))

    def _add_gpu(self, event: TraceEvent, role: str, start: int, end: int) -> None:
        name, args = _name(event.name), mapping(decoded(event.args))
        duration = nanoseconds(event.dur)
        if event.dur is not None and (duration is None or duration < 0):
            self.impossible.append((name, f"{event.dur} µs"))
        shape = (
            dims(args.get("grid")),
            dims(args.get("block")),
            count(args.get("registers per thread")) or None,
            count(args.get("shared memory")),
        )
        correlation = count(args.get("correlation"))
        launcher = count(args.get("External id", args.get("external id")))
        of_nccl = role == KERNEL and "nccl" in name.lower()
        self.gpu.append(
            GpuEvent(
                role=role,
                name=name,
                start=start,
                duration=end - start or None,
                device=count(args.get("device", event.pid)) or 0,
                stream=count(args.get("stream")),
                correlation=correlation,
                # Some traces write the correlation there; it is no operator's number.
                launcher=launcher if launcher != correlation else None,
                in_graph=bool(count(args.get("graph node id"))),
                shape=self.shared.setdefault(shape, shape),
                bytes=count(args.get("bytes")),
                collective=collective(args) if of_nccl else None,
            )
        )

    def _add_call(self, event: TraceEvent, start: int, end: int) -> None:
        name, origin = _name(event.name), self._origin(event)
        correlation = count(_cpu_args(event).correlation)
        self.call_names.add(name)
        if correlation is not None:
            self.calls.add(0, origin, start, end, correlation)
            self.first_call = min(self.first_call or correlation, correlation)
            if launches_graph(name):
                self.graph_launches.add(correlation)
        if waits_for_gpu(name):
            thread, process = self._origins[origin]
            self.waits.append(CpuCall(thread, start, end, process))

    def _add_operator(self, event: TraceEvent, start: int, end: int) -> None:
        name = _name(event.name)
        if "#" in name:
            # Traces of 2021 have no category for annotations; PyTorch's own ones, unlike operators, have this sign.
            self._add_range(event, start, end)
            return
        args = _cpu_args(event)
        written = [bytes(args.dims) or bytes(args.old_dims)]
        if written[0]:
            self.recorded.add(SHAPES)
        if name in PRODUCTS or name in POINTWISE:
            written += [bytes(args.types), bytes(args.strides)]
        if name in PRODUCTS:
            written.append(bytes(args.settings))
        key = (name, *written, bytes(event.args) if bytes(args.collective) else None)
        what = self._what_numbers.setdefault(key, len(self._whats))
        if what == len(self._whats):
            values = {argument: decoded(Raw(value)) for argument, value in zip(_NEEDED, written, strict=False)}
            if bytes(args.collective):
                values |= mapping(decoded(event.args))
            self._whats.append(Named(name, values, operator_with_shapes(name, values)))
        self.operators.add(what, self._origin(event), start, end, count(args.number))

    def _add_range(self, event: TraceEvent, start: int, end: int) -> None:
        name = _name(event.name)
        what = self._what_numbers.setdefault(name, len(self._whats))
        if what == len(self._whats):
            self._whats.append(Named(name))
        spans = self.steps if _STEP.fullmatch(name) else self.ranges
        spans.add(what, self._origin(event), start, end, count(_cpu_args(event).number))

    def _add_memory(self, args: Mapping[str, Any]) -> None:
        """Keep the most that tensors took on a GPU, or that PyTorch reserved for them if that alone was recorded."""
        self.recorded.add(MEMORY)
        total = count(args.get("Total Allocated", args.get("Total Reserved")))
        if args.get("Device Type") == _CUDA_DEVICE_TYPE and total is not None:
            self.peak_memory_bytes = max(total, self.peak_memory_bytes or 0)

    def _origin(self, event: TraceEvent) -> int:
        origin = (f"{event.pid}/{event.tid}", count(event.pid))
        number = self._origin_numbers.setdefault(origin, len(self._origins))
        if number == len(self._origins):
            self._origins.append(origin)
        return number


def _cpu_args(event: TraceEvent) -> _CpuArgs:
    return decoded(event.args, _CPU_ARGS) or _CpuArgs()


def _name(written: object) -> str:
    return _known_name(written) if isinstance(written, str) else _UNNAMED


@lru_cache(2**16)
def _known_name(written: str) -> str:
    """Return a name, of equal ones the same object."""
    return text_of(written) or _UNNAMED
