"""Launches out of their messages: names, shape, process, ranges and GPU; metrics and code are read on demand."""

from __future__ import annotations

import math
from array import array

from msgspec import Struct, field

from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import Dim3, Launch, MetricTable, integer
from gpuprof.read.device_attributes import ATTRIBUTE, device_of, dimensions
from gpuprof.read.ncu_details import EmbeddedPrograms, KernelIdentity, NcuDetails, SharedCode, reference_of
from gpuprof.read.ncu_messages import LaunchMessages
from gpuprof.read.ncu_metrics import NcuMetrics
from gpuprof.read.nvtx_state import nvtx_ranges
from gpuprof.read.protobuf import Malformed, as_text, by_number, last_number
from gpuprof.read.result_message import KERNEL, Layout, SplitMessage
from gpuprof.read.source_reader import SourceReader

DISPLAY_NAME = f"{ATTRIBUTE}display_name"
# Field numbers that only kernels have, of all results, and of ProfilerClockStatusMessage.
_MANGLED, _FUNCTION, _DEMANGLED, _GRID, _BLOCK, _SOURCE = 5, 6, 7, 10, 11, 15
_THREAD, _EXECUTED_LOCKED = 1, 2


class _Devices(Struct):
    """The GPUs of a report in the order in which launches name them."""

    recorded: list[RecordedDevice] = field(default_factory=list)
    _places: dict[tuple[int, str | None], int] = field(default_factory=dict)

    def place(self, metrics: NcuMetrics, device: tuple[int, str | None]) -> int:
        """Return the place of the GPU of that number and name, which the metrics of a launch on it describe."""
        if device not in self._places:
            self._places[device] = len(self.recorded)
            self.recorded.append(device_of(metrics.single, device[1]))
        return self._places[device]


class LaunchFacts(Struct, frozen=True):
    """What the message of a launch says of it, small enough to be sent from one process to another.

    `layout` and `starts` tell where its metrics lie, `values` are those of the columns. `strange` is a field that
    gpuprof does not know.
    """

    name: str
    demangled: str
    mangled: str
    device: tuple[int, str | None]
    stream: int | None
    shape: tuple[Dim3 | None, Dim3 | None]
    ranges: tuple[str, ...]
    reference: int | None
    layout: Layout
    starts: array[int]
    values: array[float]
    strange: int | None


class FactsReader:
    """Reads what messages say of launches. What launches have in common is one object."""

    def __init__(self, messages: LaunchMessages) -> None:
        self._messages = messages
        self._texts: dict[bytes, str] = {}
        self._ranges: dict[tuple[bytes, int | None], tuple[str, ...]] = {}
        self._shapes: dict[tuple[Dim3 | None, Dim3 | None], tuple[Dim3 | None, Dim3 | None]] = {}

    def facts(self, number: int) -> LaunchFacts:
        """Return the facts of a launch. Raises DamagedInput if its message does not parse."""
        message = self._messages.split(number)
        try:
            return self._facts(message, NcuMetrics(self._messages, number))
        except Malformed as broken:  # in a field, whose own offsets begin at zero
            raise self._messages.damaged("a launch", Malformed(message.base, broken.why)) from broken

    def _facts(self, message: SplitMessage, metrics: NcuMetrics) -> LaunchFacts:
        is_kernel = message.form is KERNEL
        fields_of_names = (_FUNCTION, _DEMANGLED, _MANGLED) if is_kernel else (message.form.display_name,) * 3
        name, demangled, mangled = (self._text(message, number) for number in fields_of_names)
        source = message.content(_SOURCE) if is_kernel else None
        shape = _shape(message, metrics)
        return LaunchFacts(
            name=name,
            demangled=demangled or name,
            mangled=mangled or name,
            device=(integer(metrics, "launch__device_id") or 0, metrics.text(DISPLAY_NAME)),
            stream=integer(metrics, "launch__stream_id"),
            shape=self._shapes.setdefault(shape, shape),
            ranges=self._ranges_of(message),
            reference=reference_of(source) if source is not None else None,
            layout=message.layout,
            starts=message.starts,
            values=metrics.values,
            strange=message.strange,
        )

    def _text(self, message: SplitMessage, number: int | None) -> str:
        """Return a name; results that are not kernels and have none are called what they are."""
        if number is None:
            return message.form.kind
        content = message.content(number) or b""
        text = self._texts.get(content)
        if text is None:
            text = self._texts[content] = as_text(content)
        return text

    def _ranges_of(self, message: SplitMessage) -> tuple[str, ...]:
        state, thread = message.content(message.form.nvtx), message.number(_THREAD)
        if state is None:
            return ()
        if (state, thread) not in self._ranges:
            self._ranges[state, thread] = nvtx_ranges(state, thread)
        return self._ranges[state, thread]


class LaunchMaker:
    """Makes the launches of a report out of what their messages say, one after the other."""

    def __init__(self, messages: LaunchMessages, programs: EmbeddedPrograms, code: SourceReader) -> None:
        self.devices = _Devices()
        self.kernels: list[KernelIdentity] = []
        self.strange: str | None = None
        self._messages = messages
        self._programs = programs
        self._code = code
        self._shared: SharedCode = {}

    def launch(self, facts: LaunchFacts) -> Launch:
        """Return the launch that follows those that were made."""
        number = len(self.kernels)
        span = self._messages.spans[number]
        metrics = NcuMetrics(self._messages, number, facts.values)
        if facts.strange is not None and self.strange is None:
            self.strange = f"a {span.form.kind} has a field {facts.strange}"
        self.kernels.append((span.process, facts.mangled, facts.reference))
        return Launch(
            name=facts.name,
            demangled=facts.demangled,
            device=self.devices.place(metrics, facts.device),
            kind=span.form.kind,
            process=span.process,
            stream=facts.stream,
            grid=facts.shape[0],
            block=facts.shape[1],
            ranges=facts.ranges,
            metrics=metrics,
            details=NcuDetails(
                metrics=metrics,
                programs=self._programs,
                code=self._code,
                shared=self._shared,
                process=span.process,
                mangled=facts.mangled,
                reference=facts.reference,
            ),
            mangled=facts.mangled,
        )


def clocks_locked(message: SplitMessage) -> bool | None:
    """Tell whether ncu held the clocks while it profiled a launch; None where that was not recorded."""
    status = message.content(message.form.clocks)
    return bool(last_number(by_number(status), _EXECUTED_LOCKED)) if status is not None else None


def _shape(message: SplitMessage, metrics: MetricTable) -> tuple[Dim3 | None, Dim3 | None]:
    """Return grid and block of a kernel: reports before 2021 have them in no metric."""
    grid, block = dimensions(metrics, "grid"), dimensions(metrics, "block")
    if (grid is not None and block is not None) or message.form is not KERNEL:
        return grid, block
    block = block or _dim3(message.content(_BLOCK))
    recorded = _dim3(message.content(_GRID))
    return grid or _grid_in_blocks(recorded, block, integer(metrics, "launch__grid_size")), block


def _grid_in_blocks(recorded: Dim3 | None, block: Dim3 | None, blocks: int | None) -> Dim3 | None:
    """Return the grid in blocks: reports of 2021 and before record it in threads; None if neither reading fits."""
    if recorded is None or blocks is None or math.prod(recorded) == blocks:
        return recorded
    if block is None or any(size % width for size, width in zip(recorded, block, strict=True)):
        return None
    grid = (recorded[0] // block[0], recorded[1] // block[1], recorded[2] // block[2])
    return grid if math.prod(grid) == blocks else None


def _dim3(message: bytes | None) -> Dim3 | None:
    """Read a Uint64x3; a launch whose profiling failed records zeros."""
    entry = by_number(message) if message is not None else {}
    x, y, z = (last_number(entry, axis) for axis in (1, 2, 3))
    return (x, y, z) if x and y and z else None
