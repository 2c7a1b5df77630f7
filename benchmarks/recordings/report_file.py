"""Writes a report file from values: what NVIDIA's reader and gpuprof need, as ncu's ProfilerReport.proto says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.recordings.line_table import INSTRUCTION_BYTES, KERNEL_SYMBOL, Position, cubin
from benchmarks.recordings.values import LaunchValues, ReportValues
from gpuprof.model.recorded import Dim3
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
    process = (values.process, values.program)
    return report(
        block([], session=session_details(command, values.versions, values.created_s), process=process),
        block([], sources=sources, process=process),
        block(results, names, process=process),
    )


def report(*blocks: bytes) -> bytes:
    """Return a report of these blocks."""
    return b"NVR\0" + prefixed(number(1, _FORMAT)) + b"".join(blocks)


def block(
    results: Sequence[bytes],
    strings: Sequence[str] = (),
    session: bytes = b"",
    *,
    sources: Sequence[bytes] = (),
    declared: int | None = None,
    process: tuple[int, str] | None = None,
) -> bytes:
    """Return a block: header and payload. `process` is its number and name; `declared` lies about how many results."""
    payload = b"".join(prefixed(item) for item in (*sources, *results))
    header = number(1, len(sources)) + number(2, len(results) if declared is None else declared)
    if session:
        header += message(3, session)
    header += message(4, b"".join(message(1, text.encode()) for text in strings)) + number(5, len(payload))
    if process is not None:
        header += message(6, number(1, process[0]) + message(3, process[1].encode()))
    return prefixed(header) + payload


def session_details(command: str | None, versions: Mapping[str, str], created_s: int | None) -> bytes:
    """Return what a session says of itself: when it was, the tools by provider, how ncu was called."""
    out = number(2, created_s) if created_s is not None else b""
    for provider, version in versions.items():
        out += message(8, message(1, provider.encode()) + message(2, version.encode()))
    return out + (message(11, command.encode()) if command is not None else b"")


def dim3(size: Dim3) -> bytes:
    """Return the size of a grid or a block."""
    return b"".join(number(axis + 1, value) for axis, value in enumerate(size))


Programs = dict[str, tuple[int, dict[int, Position]]]
"""The number of each kernel's program, and the positions of its instructions by address."""


def _programs(values: ReportValues) -> Programs:
    """Return for each kernel the number of its program and the lines of its instructions, over all its launches."""
    programs: Programs = {}
    for launch in values.launches:
        _, lines = programs.setdefault(launch.mangled, (len(programs) + 1, {}))
        lines.update(launch.lines)
    return programs


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
            message(9, dim3((0, 0, 0))),
            message(10, dim3(launch.grid)),
            message(11, dim3(launch.block)),
            *metrics,
            message(15, number(1, programs[launch.mangled][0])),
            number(16, 0),
            *(message(field, value) for field, value in optional if value is not None),
            *_numbers(((22, launch.context), (23, launch.stream))),
        )
    )


def _numbers(fields: Iterable[tuple[int, int | None]]) -> list[bytes]:
    return [number(field, value) for field, value in fields if value is not None]
