"""Takes the values out of a report: counters with their instances, launch configuration, names, files and lines.

Left behind are source text, machine code, call stacks, hosts, folders, and NVIDIA's sections, rules, metric lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.recordings.line_table import Position
from gpuprof.model.recorded import Dim3, Launch, integer
from gpuprof.read.container import walk
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.protobuf import fields

_THREAD, _METRIC_RESULT, _NVTX, _CLOCKS = 1, 13, 21, 25
_LISTS = ("group:", "breakdown:")
"""Metrics whose value is a list of other metrics, as NVIDIA groups them."""


class LaunchValues(NamedTuple):
    """One launch, made by a thread.

    `metrics` are ProfileMetricResult messages by the metric's name, less the number of the name. `lines` gives file
    and line of its instructions by address; `nvtx` and `clocks` are messages of the same names.
    """

    thread: int
    mangled: str
    name: str
    demangled: str
    grid: Dim3
    block: Dim3
    context: int | None
    stream: int | None
    metrics: Mapping[str, bytes]
    lines: Mapping[int, Position]
    nvtx: bytes | None
    clocks: bytes | None


class ReportValues(NamedTuple):
    """A report: its launches, process, name of the program, versions of tools by provider, seconds since 1970, chip."""

    launches: tuple[LaunchValues, ...]
    process: int
    program: str
    versions: Mapping[str, str]
    created_s: int | None
    sm: int


def values_of(path: Path, launches: int | None) -> ReportValues:
    """Read the values of a report's first launches (None: all). Raises a GpuprofError for what is no sound report."""
    report = read_ncu_rep(path)
    data = path.read_bytes()
    container = walk(data)
    capability = report.devices[0].compute_capability
    assert capability is not None, "the report names no compute capability"
    taken = report.launches[:launches]
    places = [_places(launch) for launch in taken]
    names = file_names(file for lines in places for file, _ in lines.values())
    return ReportValues(
        tuple(
            _launch(
                launch,
                data[span.start : span.end],
                container.names,
                {pc: (names[file], line) for pc, (file, line) in lines.items()},
            )
            for launch, span, lines in zip(taken, container.spans, places, strict=False)
        ),
        process=container.processes[0][0],
        program=container.processes[0][1].rpartition("/")[2],
        versions=container.versions,
        created_s=container.created_s,
        sm=int(capability.replace(".", "")),
    )


def _launch(launch: Launch, message: bytes, names: Sequence[str], lines: Mapping[int, Position]) -> LaunchValues:
    assert launch.grid is not None and launch.block is not None, f"{launch.name} has no grid or block"
    values = [(field, value) for field, value, _ in fields(message, 0)]
    alone = dict(values)
    thread, nvtx, clocks = alone[_THREAD], alone.get(_NVTX), alone.get(_CLOCKS)
    assert isinstance(thread, int), "a thread is a number"
    return LaunchValues(
        thread=thread,
        mangled=launch.mangled or launch.name,
        name=launch.name,
        demangled=launch.demangled,
        grid=launch.grid,
        block=launch.block,
        context=integer(launch.metrics, "launch__context_id"),
        stream=launch.stream,
        metrics=dict(_metrics((value for field, value in values if field == _METRIC_RESULT), names)),
        lines=lines,
        nvtx=nvtx if isinstance(nvtx, bytes) else None,
        clocks=clocks if isinstance(clocks, bytes) else None,
    )


def _metrics(results: Iterable[int | bytes], names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for result in results:
        assert isinstance(result, bytes), "a metric is a message"
        field, number, end = next(fields(result, 0))
        assert field == 1 and isinstance(number, int), "the number of its name comes first"
        if not names[number].startswith(_LISTS):
            yield names[number], result[end:]


def _places(launch: Launch) -> dict[int, Position]:
    positions = ((instruction.pc, instruction.file, instruction.line) for instruction in launch.details.instructions())
    return {pc: (file, line) for pc, file, line in positions if file is not None and line is not None}


def file_names(files: Iterable[str]) -> dict[str, str]:
    """Return each file's name without its folders, but for those that tell files of one name from each other."""
    parts = {file: file.split("/") for file in files}
    kept = dict.fromkeys(parts, 1)
    while True:
        names = {file: "/".join(parts[file][-kept[file] :]) for file in parts}
        alike = [file for file, name in names.items() if list(names.values()).count(name) > 1]
        if not alike:
            return names
        for file in alike:
            kept[file] += 1
