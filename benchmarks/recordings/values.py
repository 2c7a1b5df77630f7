"""Takes the values out of a report: counters with their instances, launch configuration, names, files and lines.

Left behind are source text, machine code, call stacks, hosts, folders, and NVIDIA's sections, rules, metric lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.recordings.line_table import Position
from gpuprof.model.report import Dim3, Launch
from gpuprof.read.container import Container, Span, metric_result, raw_fields, walk
from gpuprof.read.ncu_rep import read_ncu_rep

_THREAD, _METRIC_RESULT, _NVTX, _CLOCKS = 1, 13, 21, 25
_LISTS = ("group:", "breakdown:")
"""Metrics whose value is a list of other metrics, as NVIDIA groups them."""
_ROOTS = ("/usr/local/", "/root/", "/home/", "/opt/")


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
    taken = slice(0, launches)
    return ReportValues(
        tuple(
            _launch(launch, data, span, container)
            for launch, span in zip(report.launches[taken], container.spans[taken], strict=True)
        ),
        process=container.processes[0][0],
        program=container.processes[0][1].rpartition("/")[2],
        versions=container.versions,
        created_s=container.created_s,
        sm=int(capability.replace(".", "")),
    )


def _launch(launch: Launch, data: bytes, span: Span, container: Container) -> LaunchValues:
    assert launch.grid is not None and launch.block is not None, f"{launch.name} has no grid or block"
    message = data[span.start : span.end]
    fields = [(field, message[start:end]) for field, start, end in raw_fields(message)]
    alone = {field: content(raw) for field, raw in fields if field in (_NVTX, _CLOCKS)}
    return LaunchValues(
        _small(next(raw for field, raw in fields if field == _THREAD)),
        launch.mangled or launch.name,
        launch.name,
        launch.demangled,
        launch.grid,
        launch.block,
        launch.context,
        launch.stream,
        metrics=dict(_metrics((raw for field, raw in fields if field == _METRIC_RESULT), container.names)),
        lines=_lines(launch),
        nvtx=alone.get(_NVTX),
        clocks=alone.get(_CLOCKS),
    )


def _metrics(results: Iterator[bytes], names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    for raw in results:
        number, _ = metric_result(raw)
        name, inner = names[number], content(raw)
        if not name.startswith(_LISTS):
            parts = list(raw_fields(inner))
            assert parts[0][0] == 1, "the name comes first"
            yield name, inner[parts[0][2] :]


def _lines(launch: Launch) -> dict[int, Position]:
    found = {one.pc: (one.file, one.line) for one in launch.details.instructions()}
    return {pc: (shortened(file), line) for pc, (file, line) in found.items() if file is not None and line is not None}


def shortened(file: str) -> str:
    """Return a file name without the folder that tells who built it, or where."""
    for root in _ROOTS:
        if file.startswith(root):
            rest = file.removeprefix(root)
            return rest.partition("/")[2] if root == "/home/" else rest
    return file.lstrip("/")


def _small(field: bytes) -> int:
    """Return the value of an integer field whose tag is one byte."""
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(field[1:]))


def content(field: bytes) -> bytes:
    """Return what a length-delimited field holds."""
    at = 0
    for _ in range(2):
        while field[at] & 0x80:
            at += 1
        at += 1
    return field[at:]
