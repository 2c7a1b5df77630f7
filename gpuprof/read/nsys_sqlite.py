"""Reads what `nsys export --type sqlite` writes: kernels, copies and NVTX ranges, whatever columns its version has."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from gpuprof.errors import DamagedInput, InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import Dim3
from gpuprof.model.torch_ranges import readable_range
from gpuprof.read.timeline_parts import (
    LaunchOrigin,
    WaitSpan,
    controls_profiler,
    device_numbers,
    host_waits,
    impossible,
    left_out,
    open_at_places,
    program_step,
    since_epoch,
    waits_for_gpu,
)
from gpuprof.timeline.trace import COPY, DIRECTIONS, KERNEL, PAGEABLE, PINNED, SET, UNIFIED, Activity, Trace

KIND = "nsys-sqlite"
_KERNELS, _COPIES, _SETS = (f"CUPTI_ACTIVITY_KIND_{what}" for what in ("KERNEL", "MEMCPY", "MEMSET"))
_CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_STARTED = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId")
_KERNEL_COLUMNS = (
    *_STARTED,
    *("demangledName", "shortName", "mangledName", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
    *(f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ"),
)
_TO_DEVICE, _TO_HOST, _ON_DEVICE, _BETWEEN_PEERS, _ON_HOST = DIRECTIONS
_DIRECTIONS = {
    **dict.fromkeys((1, 3, 11), _TO_DEVICE),
    **dict.fromkeys((2, 4, 12), _TO_HOST),
    **dict.fromkeys((5, 6, 7, 8, 13), _ON_DEVICE),
    9: _ON_HOST,
    10: _BETWEEN_PEERS,
}
"""CUDA_MEMCPY_KIND of the export: 3 to 7 are arrays, 11 to 13 pages that unified memory moved."""
_PAGES = range(11, 14)
_MEMORIES = {0: PAGEABLE, 1: PINNED, 4: UNIFIED, 6: UNIFIED}
"""CUDA_MEMOPR_MEMORY_KIND of the export; the others are on a GPU, or not known."""
_PUSH_POP, _START_END = 59, 60
"""Types of NVTX events."""
_STEPS_AT_LEAST = 3
_NUMBER = re.compile(r"(?<![\s_#:./=-])[\s_#:./=-]*\d+")
_OF_TORCH = re.compile(r"\w+::|\w+Backward\d*\b")
"""How the ranges of torch's operators and gradients begin: they come again and again, and are no steps."""
_DRIVER = re.compile(r"(\d{3})(\d{2,3})(\d{2})")
_LARGEST = 2**63
_LATEST_NS = 10**18
"""No time of a timeline comes near it: it is 30 years."""
_HEADER_BYTES = 100
_GRAPH_KERNELS = "nsys profile --cuda-graph-trace=node"
_STORED_TABLES = """
SELECT name FROM sqlite_master AS tables
WHERE type = 'table' AND rootpage > 0 AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(tables.name) WHERE hidden <> 0)
"""
"""Only stored tables: views, virtual tables and computed columns can yield far more than the file holds."""
_EXPORT = "export the report again: nsys export --type sqlite REPORT.nsys-rep"

_Row = dict[str, Any]


class _Range(NamedTuple):
    """An NVTX range."""

    name: str
    thread: Hashable
    start: int
    end: int
    nested: bool


class _Launched(NamedTuple):
    """What a GPU did, as recorded: `device` is the GPU's number in the machine, `start` in nanoseconds."""

    activity: Activity
    start: int
    device: int
    call: tuple[int | None, int] | None


def read_nsys_sqlite(path: Path, sha256: str) -> Trace:
    """Read the timeline of an export. Raises InputError for another database, DamagedInput for a broken one."""
    _check_whole(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            return _read(_Export(connection), path, sha256)
    except (sqlite3.Error, UnicodeError) as error:
        # sqlite3 raises UnicodeError where a message of SQLite quotes damaged bytes.
        raise DamagedInput(f"{path} is damaged: SQLite says {str(error)!r:.200}", _EXPORT) from error
    except MemoryError as error:
        raise InputError(
            f"{path} is a timeline too large for the memory of this machine", "record a shorter part of the program"
        ) from error


def _check_whole(path: Path) -> None:
    """Raise DamagedInput for a file that is shorter than it says, InputError for one that is still being written."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        size = path.stat().st_size
        writing = [end for end in ("-journal", "-wal") if _has_content(path.with_name(path.name + end))]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    page = int.from_bytes(header[16:18], "big")
    # The count of pages holds only where the library that wrote last says so (sqlite.org/fileformat.html, 1.3.7).
    pages = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 1
    expected = pages * (2**16 if page == 1 else page)
    if len(header) < _HEADER_BYTES or size < expected:
        raise DamagedInput(f"{path} is damaged: it has {size} of {max(expected, _HEADER_BYTES)} bytes", _EXPORT)
    if writing:
        raise InputError(
            f"{path} is still being written: {path.name}{writing[0]} is beside it",
            "wait until nsys export has ended, or export again",
        )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


class _Export:
    """The tables of an export; what a version does not have is empty."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        self._tables = {row[0] for row in connection.execute(_STORED_TABLES)}
        self._strings: dict[int, str] | None = None

    def has(self, *tables: str) -> bool:
        """Tell whether the export has any of these tables."""
        return any(table in self._tables for table in tables)

    def rows(self, table: str, columns: Iterable[str]) -> Iterator[_Row]:
        """Yield the rows of a table with these columns; a column that the table lacks is None."""
        if table not in self._tables:
            return
        recorded = {row[1] for row in self._connection.execute(f'PRAGMA table_info("{table}")')}
        names = list(columns)
        chosen = ", ".join(f'"{name}"' if name in recorded else "NULL" for name in names)
        for row in self._connection.execute(f'SELECT {chosen} FROM "{table}"'):  # noqa: S608  names of our own
            yield dict(zip(names, row, strict=True))

    def string(self, number: object) -> str | None:
        """Return the text of a number in the table of strings."""
        if self._strings is None:
            rows = self.rows("StringIds", ("id", "value"))
            self._strings = {row["id"]: row["value"] for row in rows if isinstance(row["value"], str)}
        return self._strings.get(number) if isinstance(number, int) else None

    def named(self, table: str, name: str) -> str | None:
        """Return the value of that name in a table of names and values."""
        values = (row["value"] for row in self.rows(table, ("name", "value")) if row["name"] == name)
        value = next(values, None)
        return str(value) if value not in (None, "") else None


def _read(export: _Export, path: Path, sha256: str) -> Trace:
    if not export.has("StringIds") or not export.has(_KERNELS, _COPIES, *_CALLS, _GRAPHS, "TARGET_INFO_SYSTEM_ENV"):
        raise InputError(f"{path} is an SQLite database, but not an export of Nsight Systems", _EXPORT)
    recorded = list(_launched(export))
    launched = [_with_possible_time(launch) for launch in recorded if launch is not None]
    backwards = [
        (launch.activity.name, f"{launch.activity.duration_s:g} s")
        for launch in recorded
        if launch is not None and launch.activity.duration_s is not None and launch.activity.duration_s < 0
    ]
    graphs = sum(1 for _ in export.rows(_GRAPHS, ("start",)))
    if not any(launch.activity.kind == KERNEL for launch in launched):
        raise _no_kernel(path, graphs)
    places = _places(export, launched)
    ranges = list(_ranges(export))
    steps = _step_ranges(ranges)
    called = (place.at for place in places if place is not None)
    origin = min(chain((launch.start for launch in launched), called, (span.start for span in ranges)))
    used = device_numbers((launch.device for launch in launched), str(path))
    index = {number: position for position, number in enumerate(used)}
    around = open_at_places((span for span in ranges if span not in steps), places)
    activities = [
        launch.activity._replace(
            device=index[launch.device],
            start_s=(launch.start - origin) / 1e9,
            launched_s=(place.at - origin) / 1e9 if place is not None else None,
            ranges=tuple(span.name for span in around.get(place, ())) if place is not None else (),
        )
        for launch, place in zip(launched, places, strict=True)
    ]
    return Trace(
        file=str(path),
        sha256=sha256,
        kind=KIND,
        tool="nsys",
        tool_version=export.named("EXPORT_META_DATA", "EXPORT_PRODUCT_VERSION")
        or export.named("META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION"),
        devices=_devices(export, used),
        activities=tuple(sorted(activities, key=lambda activity: activity.start_s)),
        steps=tuple(
            program_step(_without_numbers(step.name), step.thread, step.start - origin, step.end - origin)
            for step in sorted(steps, key=lambda step: step.start)
        ),
        driver=_driver(export.named("TARGET_INFO_SYSTEM_ENV", "NvDriverVersion")),
        created_s=_created_s(export, origin),
        warnings=(*left_out(len(recorded) - len(launched)), *impossible(backwards), *_graph_warning(graphs)),
        host_waits=host_waits(_waits(export), origin) if export.has(*_CALLS) else None,
        profiler_calls=any(controls_profiler(str(row["value"])) for row in export.rows("StringIds", ("value",))),
    )


def _no_kernel(path: Path, graphs: int) -> InputError:
    if graphs:
        return InputError(f"{path} has whole CUDA graphs and no kernels", f"record them: {_GRAPH_KERNELS} …")
    return InputError(
        f"{path} has no CUDA kernels", "record a program that uses the GPU: nsys profile --trace=cuda,nvtx …"
    )


def _graph_warning(graphs: int) -> tuple[str, ...]:
    if not graphs:
        return ()
    return (
        f"{graphs} launches of whole CUDA graphs are left out: their kernels were not recorded; {_GRAPH_KERNELS} "
        "records them",
    )


def _launched(export: _Export) -> Iterator[_Launched | None]:
    """Yield GPU activities; None for one without a start. One that ends before its start has a negative duration."""
    gpus = _Gpus(export)
    for row in export.rows(_KERNELS, _KERNEL_COLUMNS):
        name = export.string(row["demangledName"]) or export.string(row["shortName"]) or "unnamed"
        yield _with_start(row, _kernel(export, row, name), gpus)
    for row in export.rows(_COPIES, (*_STARTED, "bytes", "copyKind", "srcKind", "dstKind")):
        copy = _moved(row, COPY, _DIRECTIONS.get(row["copyKind"], "copy"))
        yield _with_start(row, copy._replace(memory=_memory(row)), gpus)
    for row in export.rows(_SETS, (*_STARTED, "bytes")):
        yield _with_start(row, _moved(row, SET, SET), gpus)


class _Gpus:
    """Which GPU of the machine each process calls by a CUDA number: processes may see different ones as number 0."""

    def __init__(self, export: _Export) -> None:
        self._of_process: dict[tuple[int, int], int] = {}
        self._of_any: dict[int, int] = {}
        for row in export.rows("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid")):
            gpu, cuda, process = _count(row["gpuId"]), _count(row["cudaId"]), _count(row["pid"])
            if gpu is None or cuda is None:
                continue
            self._of_any.setdefault(cuda, gpu)
            if process is not None:
                self._of_process.setdefault((process, cuda), gpu)

    def number(self, process: int | None, cuda: int) -> int:
        """Return a GPU's number in the machine; of a process that is not listed, what any process calls so."""
        of_any = self._of_any.get(cuda, cuda)
        return self._of_process.get((process, cuda), of_any) if process is not None else of_any


def _kernel(export: _Export, row: _Row, name: str) -> Activity:
    return Activity(
        kind=KERNEL,
        name=name,
        device=0,
        start_s=0.0,
        duration_s=_duration_s(row),
        stream=_count(row["streamId"]),
        grid=_dims(row, "grid"),
        block=_dims(row, "block"),
        registers_per_thread=_count(row["registersPerThread"]) or None,
        shared_bytes=_sum(row["staticSharedMemory"], row["dynamicSharedMemory"]),
        mangled=export.string(row["mangledName"]),
        process=_process_id(row),
    )


def _moved(row: _Row, kind: str, name: str) -> Activity:
    return Activity(
        kind=kind,
        name=name,
        device=0,
        start_s=0.0,
        duration_s=_duration_s(row),
        stream=_count(row["streamId"]),
        bytes=_count(row["bytes"]),
        process=_process_id(row),
    )


def _memory(row: _Row) -> str | None:
    """Return the memory at the host's end of a copy, or that its pages are unified memory."""
    if row["copyKind"] in _PAGES:
        return UNIFIED
    return next((_MEMORIES[row[end]] for end in ("srcKind", "dstKind") if row[end] in _MEMORIES), None)


def _with_start(row: _Row, activity: Activity, gpus: _Gpus) -> _Launched | None:
    start = _time(row["start"])
    correlation = _count(row["correlationId"])
    call = (_process(row["globalPid"]), correlation) if correlation else None
    gpu = gpus.number(activity.process, _count(row["deviceId"]) or 0)
    activity = activity._replace(graph_launch=call) if _count(row["graphNodeId"]) else activity
    return _Launched(activity, start, gpu, call=call) if start is not None else None


def _duration_s(row: _Row) -> float | None:
    start, end = _time(row["start"]), _time(row["end"])
    return (end - start) / 1e9 if start is not None and end is not None and end != start else None


def _with_possible_time(launched: _Launched) -> _Launched:
    activity = launched.activity
    if activity.duration_s is None or activity.duration_s > 0:
        return launched
    return launched._replace(activity=activity._replace(duration_s=None))


def _process_id(row: _Row) -> int | None:
    process = _process(row["globalPid"])
    return process & 0xFFFFFF if process is not None else None


def _time(value: object) -> int | None:
    return value if isinstance(value, int) and -_LATEST_NS < value < _LATEST_NS else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < _LARGEST else None


def _process(number: object) -> int | None:
    """Return the part of a global number that names the machine and the process."""
    return number >> 24 if isinstance(number, int) else None


def _places(export: _Export, launched: list[_Launched]) -> list[LaunchOrigin | None]:
    """Return for each activity the call that launched it: of the same correlation and process."""
    wanted = {launch.call for launch in launched}
    calls: dict[tuple[int | None, int], LaunchOrigin] = {}
    for table in _CALLS:
        for row in export.rows(table, ("start", "globalTid", "correlationId")):
            thread, at, correlation = row["globalTid"], _time(row["start"]), _count(row["correlationId"])
            if at is None or correlation is None:
                continue
            # Old exports do not name the process of an activity.
            for call in ((_process(thread), correlation), (None, correlation)):
                if call in wanted:
                    calls.setdefault(call, LaunchOrigin(thread, at, None))
    return [calls.get(launch.call) if launch.call is not None else None for launch in launched]


def _waits(export: _Export) -> Iterator[WaitSpan]:
    """Yield the calls in which a thread waited for a GPU."""
    waiting: dict[object, bool] = {}
    for row in chain.from_iterable(export.rows(table, ("start", "end", "nameId", "globalTid")) for table in _CALLS):
        name, start, end = row["nameId"], _time(row["start"]), _time(row["end"])
        if name not in waiting:
            waiting[name] = waits_for_gpu(export.string(name) or "")
        if waiting[name] and start is not None and end is not None and end >= start:
            process = _process(row["globalTid"])
            yield WaitSpan(start, end, process & 0xFFFFFF if process is not None else None)


def _ranges(export: _Export) -> Iterator[_Range]:
    """Yield the NVTX ranges that ended and have a name."""
    for row in export.rows("NVTX_EVENTS", ("start", "end", "eventType", "text", "textId", "globalTid")):
        kind, start, end = row["eventType"], _time(row["start"]), _time(row["end"])
        name = row["text"] if isinstance(row["text"], str) else export.string(row["textId"])
        if kind in (_PUSH_POP, _START_END, None) and name and start is not None and end is not None and end >= start:
            yield _Range(readable_range(name), row["globalTid"], start, end=end, nested=kind != _START_END)


def _step_ranges(ranges: Iterable[_Range]) -> set[_Range]:
    """Return the ranges that are steps: nested in no other one, and of three or more that differ in numbers only."""
    top: list[_Range] = []
    ends: dict[Hashable, int] = {}
    for span in sorted((span for span in ranges if span.nested), key=lambda span: (span.start, -span.end)):
        if span.start >= ends.get(span.thread, span.start):
            top.append(span)
            ends[span.thread] = span.end
    own = [span for span in top if not _OF_TORCH.match(span.name)]
    names = Counter((span.thread, _without_numbers(span.name)) for span in own)
    return {span for span in own if names[span.thread, _without_numbers(span.name)] >= _STEPS_AT_LEAST}


def _without_numbers(name: str) -> str:
    """Return what the steps of a loop have in common: "step 12" → "step", "epoch_3/batch_7" → "epoch/batch"."""
    return _NUMBER.sub("", name).strip() or "range"


def _dims(row: _Row, what: str) -> Dim3 | None:
    x, y, z = (_count(row[what + axis]) for axis in "XYZ")
    return (x, y, z) if x and y and z else None


def _sum(first: object, second: object) -> int | None:
    counts = [count for count in (_count(first), _count(second)) if count is not None]
    return sum(counts) if len(counts) == 2 else None


def _devices(export: _Export, used: Iterable[int]) -> tuple[RecordedDevice, ...]:
    columns = ("id", "name", "smCount", "clockRate", "totalMemory", "l2CacheSize")
    gpus = {row["id"]: row for row in export.rows("TARGET_INFO_GPU", (*columns, "computeMajor", "computeMinor"))}
    return tuple(_device(gpus.get(number, {})) for number in used)


def _device(row: _Row) -> RecordedDevice:
    major, minor = _count(row.get("computeMajor")), _count(row.get("computeMinor"))
    clock_hz = _count(row.get("clockRate"))
    return RecordedDevice(
        name=row.get("name") if isinstance(row.get("name"), str) else None,
        compute_capability=f"{major}.{minor}" if major is not None and minor is not None else None,
        sm_count=_count(row.get("smCount")) or None,
        max_sm_clock_hz=float(clock_hz) if clock_hz else None,
        memory_bytes=_count(row.get("totalMemory")) or None,
        l2_bytes=_count(row.get("l2CacheSize")) or None,
    )


def _driver(recorded: str | None) -> str | None:
    """Return "510.47.03" for the 5104703 that exports have; a version with points is left as it is."""
    match = _DRIVER.fullmatch(recorded or "")
    return ".".join(match.groups()) if match else recorded


def _created_s(export: _Export, origin: int) -> float | None:
    began = next((row["utcEpochNs"] for row in export.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))), None)
    return since_epoch((_count(began) or 0) + origin)
