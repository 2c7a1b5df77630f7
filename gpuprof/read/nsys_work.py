"""What the GPUs did by an export: kernels, copies, settings of memory and CUDA graphs that were recorded as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from sqlite3 import Row
from typing import Any

from gpuprof.model.recorded import Dim3
from gpuprof.read.nsys_export import Export, as_time, process_id
from gpuprof.read.step_ranges import ProgramRange
from gpuprof.read.timeline_parts import CpuCall, count
from gpuprof.timeline.trace import COPY, DIRECTIONS, GRAPH, KERNEL, PAGEABLE, PINNED, SET, UNIFIED, Activity

_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": COPY,
    "CUPTI_ACTIVITY_KIND_MEMCPY2": COPY,
    "CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS": COPY,
    "CUPTI_ACTIVITY_KIND_MEMSET": SET,
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": GRAPH,
}
"""The tables of work. Waits, functions of the host and page faults are no work."""
_STARTED = ("start", "end", "deviceId", "correlationId", "globalPid")
_COLUMNS = (
    *_STARTED,
    *("streamId", "graphNodeId", "bytes", "copyKind", "srcKind", "dstKind", "graphId", "graphExecId"),
    *("demangledName", "shortName", "mangledName", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
    *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
)
"""Of all tables together: what one of them lacks is None."""
_TO_DEVICE, _TO_HOST, _ON_DEVICE, _BETWEEN_PEERS, _ON_HOST = DIRECTIONS
_DIRECTIONS = {
    1: _TO_DEVICE,
    2: _TO_HOST,
    3: _TO_DEVICE,
    4: _TO_HOST,
    5: _ON_DEVICE,
    6: _ON_DEVICE,
    7: _ON_DEVICE,
    8: _ON_DEVICE,
    9: _ON_HOST,
    10: _BETWEEN_PEERS,
    11: _TO_DEVICE,
    12: _TO_HOST,
    13: _ON_DEVICE,
}
"""CUDA_MEMCPY_KIND of the export: 3 to 7 are arrays, 11 to 13 pages that unified memory moved."""
_PAGES = range(11, 14)
_MEMORIES = {0: PAGEABLE, 1: PINNED, 4: UNIFIED, 6: UNIFIED}
"""CUDA_MEMOPR_MEMORY_KIND of the export; the others are on a GPU, or not known."""
_ON_THE_HOST = 2**31 - 1
"""The device of a graph that begins with a function of the host; it is counted to the first GPU of its process."""

CallKey = int
"""A call of CUDA, by its correlation and its process."""


class GpuWork:
    """The work of all GPUs. It is read twice, so that an activity is made once, when all is known that it needs.

    `first` is the earliest start, None without any work. `calls` are those that launched something, as yet without a
    place, and `gpus` the numbers of the GPUs in the machine. Once all activities were read,
    `waits` has the calls that copied to pageable memory, which return when that is done, and `backwards` what ends
    before its start.
    """

    def __init__(self, export: Export) -> None:
        self._export = export
        self._numbers = _gpu_numbers(export)
        self._shared: dict[Any, Any] = {}
        self.first: int | None = None
        self.calls: dict[CallKey, CpuCall | None] = {}
        self.gpus: set[int] = set()
        self.without_start = 0
        self.waits: list[CpuCall] = []
        self.backwards: list[tuple[str, str]] = []
        for row in export.rows(_TABLES, *_STARTED):
            start = _start(row)
            if start is None:
                self.without_start += 1
                continue
            self.first = start if self.first is None else min(self.first, start)
            self.gpus.add(self._gpu(row))
            call = call_key(row["globalPid"], row["correlationId"])
            if call is not None:
                self.calls[call] = None

    def activities(
        self, origin: int, devices: Sequence[int], around: Mapping[CpuCall | None, Sequence[ProgramRange]]
    ) -> Iterator[Activity]:
        """Yield what the GPUs did since `origin`; `devices` are the GPUs of the trace, `around` the open ranges.

        A graph whose nodes were recorded is left out as a whole.
        """
        by_nodes: set[CallKey | None] = set()
        for table, kind in _TABLES.items():
            for row in self._export.rows((table,), *_COLUMNS):
                start = _start(row)
                if start is None:
                    continue
                call = call_key(row["globalPid"], row["correlationId"])
                if kind == GRAPH and call is not None and call in by_nodes:
                    continue
                place = self.calls[call] if call is not None else None
                graph_launch = call if count(row["graphNodeId"]) else None
                by_nodes.add(graph_launch)
                name, memory = _name(row, kind, self._export), _memory(row) if kind == COPY else None
                if place is not None and (name, memory) == (_TO_HOST, PAGEABLE):
                    self.waits.append(place)
                yield Activity(
                    kind=kind,
                    name=name,
                    device=devices.index(self._gpu(row)),
                    start_s=(start - origin) / 1e9,
                    duration_s=self._duration_s(row, start, name),
                    stream=count(row["streamId"]),
                    grid=self._one(_dims(row, "grid")),
                    block=self._one(_dims(row, "block")),
                    registers_per_thread=count(row["registersPerThread"]) or None,
                    shared_bytes=_sum(row["staticSharedMemory"], row["dynamicSharedMemory"]),
                    bytes=count(row["bytes"]),
                    ranges=self._one(tuple(span.name for span in around.get(place, ()))),
                    mangled=self._export.string(row["mangledName"]),
                    process=self._one(process_id(row["globalPid"])),
                    launched_s=(place.start - origin) / 1e9 if place is not None else None,
                    queued_s=(start - place.end) / 1e9 if place is not None else None,
                    graph_launch=graph_launch,
                    memory=memory,
                )

    def _duration_s(self, row: Row, start: int, name: str) -> float | None:
        end = as_time(row["end"])
        if end is None or end == start:
            return None
        if end < start:
            self.backwards.append((name, f"{(end - start) / 1e9:g} s"))
            return None
        return (end - start) / 1e9

    def _gpu(self, row: Row) -> int:
        """Return the GPU's number in the machine; of a process that is not listed, what any process calls so."""
        cuda = count(row["deviceId"]) or 0
        if cuda == _ON_THE_HOST:
            cuda = 0
        of_any = self._numbers.get((None, cuda), cuda)
        return self._numbers.get((process_id(row["globalPid"]), cuda), of_any)

    def _one(self, value: Any) -> Any:
        """Return the one object of this value, so that a million alike take the memory of one."""
        return self._shared.setdefault(value, value)


def _gpu_numbers(export: Export) -> Mapping[tuple[int | None, int], int]:
    """Return the GPUs of the machine by process and CUDA number: processes can see different ones as number 0."""
    numbers: dict[tuple[int | None, int], int] = {}
    for row in export.rows(("TARGET_INFO_CUDA_DEVICE",), "gpuId", "cudaId", "pid"):
        gpu, cuda = count(row["gpuId"]), count(row["cudaId"])
        if gpu is not None and cuda is not None:
            numbers.setdefault((None, cuda), gpu)
            numbers.setdefault((count(row["pid"]), cuda), gpu)
    return numbers


def call_key(number: object, correlation: object) -> CallKey | None:
    """Return which call of CUDA that is; `number` names a process or one of its threads, None in old exports."""
    if not (isinstance(correlation, int) and correlation > 0):
        return None
    process = number >> 24 & _PROCESS if isinstance(number, int) else _PROCESS
    return correlation << 40 | process


_PROCESS = 2**40 - 1
"""The bits of a global number that name machine and process."""


def _start(row: Row) -> int | None:
    """Return when something began; two zeros say that no time could be recorded."""
    return as_time(row["start"]) if row["start"] or row["end"] else None


def _name(row: Row, kind: str, export: Export) -> str:
    if kind == COPY:
        return _DIRECTIONS.get(row["copyKind"], COPY)
    if kind == SET:
        return SET
    columns = ("graphId", "graphExecId") if kind == GRAPH else ("demangledName", "shortName")
    numbers = [row[column] for column in columns if row[column] is not None] or [""]
    if kind == GRAPH:
        return f"graph {numbers[0]}".rstrip()
    # Without its text a kernel has a name that differs for each number of a text.
    return next(filter(None, map(export.string, numbers)), f"unnamed {numbers[0]}".rstrip())


def _memory(row: Row) -> str | None:
    """Return the memory at the host's end of a copy, or that its pages are unified memory."""
    if row["copyKind"] in _PAGES:
        return UNIFIED
    return _MEMORIES.get(row["srcKind"]) or _MEMORIES.get(row["dstKind"])


def _dims(row: Row, what: str) -> Dim3 | None:
    x, y, z = (count(row[what + axis]) for axis in "XYZ")
    return (x, y, z) if x and y and z else None


def _sum(first: object, second: object) -> int | None:
    one, other = count(first), count(second)
    return one + other if one is not None and other is not None else None
