"""Reads what `nsys export --type sqlite` writes: kernels, copies, whole graphs and NVTX ranges of any version."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Hashable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from gpuprof.errors import DamagedInput, InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.torch_ranges import readable_range
from gpuprof.read.nsys_export import (
    ABOUT_EXPORT,
    CALLS,
    EXPORT_AGAIN,
    Export,
    as_time,
    process_id,
    refuse_unfinished,
)
from gpuprof.read.nsys_work import CallKey, GpuWork, call_key
from gpuprof.read.step_ranges import ProgramRange, split_ranges
from gpuprof.read.timeline_parts import (
    CpuCall,
    controls_profiler,
    count,
    device_numbers,
    impossible,
    open_at_places,
    program_steps,
    since_epoch,
    waits_for_gpu,
)
from gpuprof.timeline.intervals import TimeInterval
from gpuprof.timeline.trace import GRAPH, Activity, Trace
from gpuprof.units import counted

KIND = "nsys-sqlite"
_READABLE = "of databases, gpuprof reads those alone that nsys export --type sqlite writes"
_DRIVER = re.compile(r"(\d{3})(\d{2,3})(\d{2})")
_GPU_COLUMNS = {
    "id": "deviceId",
    "name": "name",
    "smCount": "numMultiprocessors",
    "clockRate": "clockRate",
    "totalMemory": "globalMemorySize",
    "l2CacheSize": "l2CacheSize",
    "computeMajor": "computeCapabilityMajor",
    "computeMinor": "computeCapabilityMinor",
}
"""What is known of a GPU, and what exports before the middle of 2021 call it, as CUPTI does."""
_PUSH_POP, _START_END = 59, 60
"""Types of NVTX events."""
_GRAPHICS = ("VULKAN_WORKLOAD", "OPENGL_WORKLOAD", "DX12_WORKLOAD", "DX11_WORKLOAD")
"""The tables of what GPUs do for graphics."""
_OVERHEAD = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")
_OF_CUPTI = (3, 4, 5)
"""ENUM_CUPTI_OVERHEAD_TYPE: CUPTI flushes buffers, instruments and manages resources. The others are the driver's."""


def read_nsys_sqlite(path: Path, sha256: str) -> Trace:
    """Read the timeline of an export. Raises InputError for another database, DamagedInput for a broken one."""
    refuse_unfinished(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            return _read(Export(connection), path, sha256)
    except (sqlite3.Error, UnicodeError) as error:
        # sqlite3 raises UnicodeError if a message of SQLite quotes damaged bytes.
        raise DamagedInput(f"{path} is damaged: SQLite says {str(error)!r:.200}", EXPORT_AGAIN) from error
    except MemoryError as error:
        raise InputError(
            f"{path} is a timeline too large for the memory of this machine", "record a shorter part of the program"
        ) from error


def _read(export: Export, path: Path, sha256: str) -> Trace:
    if not export.has(*ABOUT_EXPORT, "META_DATA_CAPTURE", "StringIds"):
        raise InputError(f"{path} is an SQLite database, but not an export of Nsight Systems", _READABLE)
    work = GpuWork(export)
    if work.first is None:
        raise InputError(
            f"{path} has no work of a GPU: no CUDA kernels, copies or graphs",
            "record a program that uses the GPU: nsys profile --trace=cuda,nvtx …",
        )
    _find_calls(export, work.calls)
    launches = [call for call in work.calls.values() if call is not None]
    steps, ranges = split_ranges(_nvtx_ranges(export), launches)
    origin = min([work.first, *(span.start for span in chain(launches, steps, ranges))])
    around = open_at_places(ranges, work.calls.values()) if ranges else {}
    gpus = device_numbers(work.gpus, str(path))
    activities = sorted(work.activities(origin, gpus, around), key=attrgetter("start_s"))
    graphics = list(_graphics(export))
    waits = (call.as_wait(origin) for call in dict.fromkeys(chain(_waits(export), work.waits)))
    return Trace(
        file=str(path),
        sha256=sha256,
        kind=KIND,
        tool="nsys",
        tool_version=export.named(ABOUT_EXPORT, "EXPORT_PRODUCT_VERSION"),
        devices=_devices(export, gpus),
        activities=tuple(activities),
        steps=program_steps(steps, origin),
        driver=_driver(export.named(("TARGET_INFO_SYSTEM_ENV",), "NvDriverVersion")),
        created_s=_created_s(export, origin),
        incomplete=work.without_start > 0 or bool(graphics),
        warnings=(
            *_without_start(work.without_start),
            *impossible(work.backwards),
            *_without_kernels(activities),
            *graphics,
        ),
        host_waits=tuple(sorted(waits, key=attrgetter("end_s"))) if export.has(*CALLS) else None,
        profiler_calls=any(map(controls_profiler, export.strings.values())),
        overhead=tuple(sorted(_overhead(export, origin))),
    )


def _nvtx_ranges(export: Export) -> Iterator[ProgramRange]:
    """Yield the NVTX ranges that ended and have a name."""
    known: dict[Hashable, Any] = {}
    for start, end, row in export.spans(("NVTX_EVENTS",), "eventType", "text", "textId", "globalTid"):
        kind = row["eventType"]
        text = export.string(row["text"]) or export.string(row["textId"])
        if kind not in (_PUSH_POP, _START_END, None) or not text:
            continue
        thread, name = (known.setdefault(value, value) for value in (row["globalTid"], readable_range(text)))
        yield ProgramRange(thread, start, end, name, nested=kind != _START_END)


def _without_start(number: int) -> Iterator[str]:
    """Say how many activities have no start, if any."""
    if number == 1:
        yield "1 GPU activity has no start time and is left out"
    elif number:
        yield f"{number} GPU activities have no start time and are left out"


def _without_kernels(activities: Iterable[Activity]) -> Iterator[str]:
    """Say that kernels are missing, and what records them, if graphs were recorded as a whole."""
    replays = sum(activity.kind == GRAPH for activity in activities)
    if replays:
        yield (
            f"kernels in {counted(replays, 'replay')} of whole CUDA graphs were not recorded; "
            "nsys profile --cuda-graph-trace=node … records them"
        )


def _graphics(export: Export) -> Iterator[str]:
    """Say which graphics the GPUs did, which is no kernel."""
    for table in _GRAPHICS:
        if next(export.spans((table,)), None) is not None:
            yield f"work of {table.partition('_')[0]} is not read: GPUs may do it in what looks like pauses"


def _find_calls(export: Export, calls: dict[CallKey, CpuCall | None]) -> None:
    """Add the thread and the times of each call of CUDA."""
    threads: dict[object, Hashable] = {}
    for row in export.rows(CALLS, "start", "end", "globalTid", "correlationId"):
        thread, at = row["globalTid"], as_time(row["start"])
        # Old exports do not name the process of an activity.
        for number in (thread, None):
            call = call_key(number, row["correlationId"])
            if at is not None and call in calls and calls[call] is None:
                end = max(at, as_time(row["end"]) or at)
                calls[call] = CpuCall(threads.setdefault(thread, thread), at, end, process_id(thread))


def _waits(export: Export) -> Iterator[CpuCall]:
    """Yield the calls in which a thread waited for a GPU."""
    waiting = {number for number, name in export.strings.items() if waits_for_gpu(name)}
    for start, end, row in export.spans(CALLS, "nameId", "globalTid"):
        if row["nameId"] in waiting:
            yield CpuCall(row["globalTid"], start, end, process_id(row["globalTid"]))


def _overhead(export: Export, origin: int) -> Iterator[TimeInterval]:
    """Yield when the profiler itself worked; what CUPTI calls overhead of the driver is the program's."""
    for start, end, row in export.spans(_OVERHEAD, "overheadType"):
        if row["overheadType"] in (None, *_OF_CUPTI):
            yield (start - origin) / 1e9, (end - origin) / 1e9


def _devices(export: Export, used: Iterable[int]) -> tuple[RecordedDevice, ...]:
    rows = chain(
        export.rows(("TARGET_INFO_CUDA_GPU",), **_GPU_COLUMNS), export.rows(("TARGET_INFO_GPU",), *_GPU_COLUMNS)
    )
    gpus = {row["id"]: row for row in rows}
    return tuple(_device(gpus[number]) if number in gpus else RecordedDevice() for number in used)


def _device(row: sqlite3.Row) -> RecordedDevice:
    major, minor = count(row["computeMajor"]), count(row["computeMinor"])
    clock_hz = count(row["clockRate"])
    return RecordedDevice(
        name=row["name"] if isinstance(row["name"], str) else None,
        compute_capability=f"{major}.{minor}" if major is not None and minor is not None else None,
        sm_count=count(row["smCount"]) or None,
        max_sm_clock_hz=float(clock_hz) if clock_hz else None,
        memory_bytes=count(row["totalMemory"]) or None,
        l2_bytes=count(row["l2CacheSize"]) or None,
    )


def _driver(recorded: str | None) -> str | None:
    """Return "510.47.03" for the 5104703 that exports have; a version with points is left as it is."""
    match = _DRIVER.fullmatch(recorded or "")
    return ".".join(match.groups()) if match else recorded


def _created_s(export: Export, origin: int) -> float | None:
    began = next((row["utcEpochNs"] for row in export.rows(("TARGET_INFO_SESSION_START_TIME",), "utcEpochNs")), None)
    return since_epoch((count(began) or 0) + origin)
