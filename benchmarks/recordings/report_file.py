"""Writes a report file from values: what NVIDIA's reader and gpuprof need, as ncu's ProfilerReport.proto says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.recordings.line_table import INSTRUCTION_BYTES, KERNEL_SYMBOL, Position, cubin
from benchmarks.recordings.values import LaunchValues, ReportValues
from gpuprof.model.report import Dim3
from gpuprof.read.wire import message, number, prefixed

_FORMAT = 7
_SASS_LEVEL = 8
"""Which disassembler the code is for; there is no code."""


def report_file(values: ReportValues, command: str) -> bytes:
    """Return the bytes of a report whose session names `command`. Equal values give equal bytes."""
    programs = _programs(values)
    names = list(dict.fromkeys(name for launch in values.launches for name in launch.metrics))
    numbers = {name: index for index, name in enumerate(names)}
    results = [_result(launch, numbers, programs) for launch in values.launches]
    sources = [_source(reference, name, lines, values.sm) for name, (reference, lines) in programs.items() if lines]
    process = message(6, number(1, values.process) + message(3, values.program.encode()))
    return b"NVR\0" + b"".join(
        (
            prefixed(number(1, _FORMAT)),
            _block([], [], message(3, _session(values, command)) + message(4, b""), process),
            _block(sources, [], message(4, b""), process),
            _block([], results, message(4, b"".join(message(1, name.encode()) for name in names)), process),
        )
    )


def _block(sources: list[bytes], results: list[bytes], header: bytes, process: bytes) -> bytes:
    payload = b"".join(prefixed(item) for item in (*sources, *results))
    counts = number(1, len(sources)) + number(2, len(results))
    return prefixed(counts + header + number(5, len(payload)) + process) + payload


def _session(values: ReportValues, command: str) -> bytes:
    created = number(2, values.created_s) if values.created_s is not None else b""
    versions = (message(1, who.encode()) + message(2, what.encode()) for who, what in values.versions.items())
    return created + b"".join(message(8, version) for version in versions) + message(11, command.encode())


Programs = Mapping[str, "tuple[int, dict[int, Position]]"]


def _programs(values: ReportValues) -> dict[str, tuple[int, dict[int, Position]]]:
    """Return for each kernel the number of its program and the lines of its instructions, over all its launches."""
    found: dict[str, tuple[int, dict[int, Position]]] = {}
    for launch in values.launches:
        _, lines = found.setdefault(launch.mangled, (len(found) + 1, {}))
        lines.update(launch.lines)
    return found


def _source(reference: int, kernel: str, lines: Mapping[int, Position], sm: int) -> bytes:
    """Return a SourceData: line table, names of its files, and where the kernel lay in memory."""
    start = min(lines)
    offsets = {pc - start: position for pc, position in lines.items()}
    program = cubin(kernel, max(offsets) + INSTRUCTION_BYTES, offsets, sm)
    files = dict.fromkeys(file for file, _ in lines.values())
    symbol = message(1, kernel.encode()) + number(2, start) + number(3, KERNEL_SYMBOL)
    return (
        number(1, reference)
        + message(4, program)
        + number(5, _SASS_LEVEL)
        + number(6, sm << 16 | sm)
        + number(7, 0)
        + message(8, b"".join(message(1, message(1, file.encode())) for file in files))
        + message(9, message(1, symbol))
    )


def _result(launch: LaunchValues, numbers: Mapping[str, int], programs: Programs) -> bytes:
    """Return a ProfileResult. Call and handles are required and mean nothing here."""
    metrics = (message(13, number(1, numbers[name]) + rest) for name, rest in launch.metrics.items())
    optional = ((21, launch.nvtx), (25, launch.clocks))
    return b"".join(
        (
            number(1, launch.thread),
            *(number(field, 1) for field in (2, 3, 4)),
            message(5, launch.mangled.encode()),
            message(6, launch.name.encode()),
            message(7, launch.demangled.encode()),
            number(8, 3),
            message(9, _three((0, 0, 0))),
            message(10, _three(launch.grid)),
            message(11, _three(launch.block)),
            *metrics,
            message(15, number(1, programs[launch.mangled][0])),
            number(16, 0),
            *(message(field, found) for field, found in optional if found is not None),
            *_numbers(((22, launch.context), (23, launch.stream))),
        )
    )


def _numbers(fields: Iterable[tuple[int, int | None]]) -> list[bytes]:
    return [number(field, value) for field, value in fields if value is not None]


def _three(size: Dim3) -> bytes:
    return b"".join(number(axis + 1, value) for axis, value in enumerate(size))
