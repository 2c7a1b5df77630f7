"""Makes a report of any size out of a real one: launches with perturbed values, grids and names, so that none repeats.

`python -m benchmarks.large_reports REPORT FILE LAUNCHES [KERNELS]` writes FILE with LAUNCHES launches of KERNELS
different kernels (a tenth of the launches, if not given), in blocks as ncu writes them. Values move by up to 5 %, down
only, so that no percentage passes 100; identifiers, device attributes and addresses stay.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from benchmarks.raw_fields import raw_fields
from benchmarks.recordings.report_parts import raw_blocks
from gpuprof.read.container import walk
from gpuprof.read.protobuf import fields
from gpuprof.read.wire import message, number, prefixed

_BLOCK_LAUNCHES = 1
"""So many launches a block, as in all real reports at hand."""
_NAMES = (6, 7)
_MANGLED, _GRID, _METRIC = 5, 10, 13
_NAME_ID, _VALUE, _ELEMENT, _ELEMENT_VALUE = 1, 2, 3, 2
_STRING, _FLOAT, _DOUBLE = 1, 2, 3
_KEPT = ("device__attribute_", "launch__", "profiler__", "smsp__pcsamp_interval")
_GRIDS = ("launch__grid_dim_x", "launch__grid_size")
_MULTI_BYTE = 0x80
_LEAST_FACTOR = 0.95
_FACTORS = 4


class Template(NamedTuple):
    """A launch of the real report: what is rebuilt, the bytes of the rest, and where its numbers lie in them."""

    head: list[tuple[int, int | bytes]]
    grid: dict[str, bytes]
    tail: bytes
    doubles: np.ndarray
    varints: np.ndarray


def main() -> int:
    """Write the file, and print how large it is."""
    if len(sys.argv) < 4:
        sys.stderr.write("usage: python -m benchmarks.large_reports REPORT FILE LAUNCHES [KERNELS]\n")
        return 2
    launches = int(sys.argv[3])
    kernels = int(sys.argv[4]) if len(sys.argv) > 4 else max(1, launches // 10)
    path = Path(sys.argv[2])
    with path.open("wb") as file:
        write_large(Path(sys.argv[1]).read_bytes(), file, launches, kernels)
    print(f"{path}: {launches} launches of {kernels} kernels, {path.stat().st_size / 1e6:.0f} MB")
    return 0


def write_large(data: bytes, file: BinaryIO, launches: int, kernels: int) -> None:
    """Write what the report has before its launches, and `launches` perturbed ones behind it."""
    names = walk(data).names
    templates = list(_templates(data, names))
    numbers = {name: index for index, name in enumerate(names)}
    process = b""
    for block in raw_blocks(data):
        header = data[slice(*block.header)]
        kept = [header[start:end] for field, start, end in raw_fields(header) if field in (3, 4, 6)]
        payload = b"".join(data[start - 4 : end] for start, end in block.sources)
        process = next((header[start:end] for field, start, end in raw_fields(header) if field == 6), process)
        counts = number(1, len(block.sources)) + number(2, 0)
        file.write(block.before + prefixed(counts + b"".join(kept) + number(5, len(payload))) + payload)
    random = np.random.default_rng(launches)
    for first in range(0, launches, _BLOCK_LAUNCHES):
        several = range(first, min(first + _BLOCK_LAUNCHES, launches))
        payload = b"".join(
            prefixed(_perturbed(templates[at % kernels % len(templates)], at, kernels, numbers, random))
            for at in several
        )
        header = number(1, 0) + number(2, len(several)) + message(4, b"") + number(5, len(payload)) + process
        file.write(prefixed(header) + payload)


def _templates(data: bytes, names: tuple[str, ...]) -> Iterator[Template]:
    for span in walk(data).spans:
        launch = data[span.start : span.end]
        head, tail, grid = [], [], {}
        places: tuple[list[int], list[int]] = ([], [])
        length = 0
        for (field, value, _), (_, start, end) in zip(fields(launch, 0), raw_fields(launch), strict=True):
            if field < _METRIC:
                head.append((field, value))
                continue
            raw = launch[start:end]
            if field == _METRIC and isinstance(value, bytes):
                index = next((v for f, v, _ in fields(value, 0) if f == _NAME_ID and isinstance(v, int)), 0)
                if names[index] in _GRIDS:
                    grid[names[index]] = raw
                    continue
                if not names[index].startswith(_KEPT):
                    _numbers(value, length + len(raw) - len(value), places)
            tail.append(raw)
            length += len(raw)
        doubles, varints = (np.array(some, dtype=np.int64) for some in places)
        yield Template(head=head, grid=grid, tail=b"".join(tail), doubles=doubles, varints=varints)


def _numbers(metric: bytes, base: int, places: tuple[list[int], list[int]]) -> None:
    """Note where the numbers of a metric lie: its value, and those of its instances."""
    for field, value, end in fields(metric, base):
        if not isinstance(value, bytes):
            continue
        start = end - len(value)
        if field == _VALUE:
            _number(value, start, places)
        elif field == _ELEMENT:
            for inner, content, stop in fields(value, start):
                if inner == _ELEMENT_VALUE and isinstance(content, bytes):
                    _number(content, stop - len(content), places)


def _number(value: bytes, base: int, places: tuple[list[int], list[int]]) -> None:
    for kind, content, end in fields(value, base):
        if kind == _DOUBLE:
            places[0].append(end - 8)
        elif isinstance(content, int) and content >= _MULTI_BYTE:
            places[1].append(base + 1)


def _perturbed(
    template: Template, at: int, kernels: int, numbers: dict[str, int], random: np.random.Generator
) -> bytes:
    kernel = at % kernels
    blocks = 1 + kernel % 7
    out = b""
    for field, value in template.head:
        if field in _NAMES and isinstance(value, bytes):
            out += message(field, _renamed(value, kernel))
        elif field == _GRID and isinstance(value, bytes):
            sizes = {axis: size for axis, size, _ in fields(value, 0) if isinstance(size, int)}
            sizes[1] = sizes.get(1, 1) * blocks
            out += message(field, b"".join(number(axis, size) for axis, size in sizes.items()))
        else:
            out += message(field, value) if isinstance(value, bytes) else number(field, value)
    for name, raw in template.grid.items():
        content = next(value for _, value, _ in fields(raw, 0) if isinstance(value, bytes))
        inner = next(value for field, value, _ in fields(content, 0) if field == _VALUE and isinstance(value, bytes))
        kind, size, _ = next(fields(inner, 0))
        if isinstance(size, int):
            value = message(_VALUE, number(kind, size * blocks))
            out += message(_METRIC, number(_NAME_ID, numbers[name]) + value)
        else:
            out += raw
    tail = np.frombuffer(template.tail, dtype=np.uint8).copy()
    if len(template.doubles):
        at_bytes = template.doubles[:, None] + np.arange(8)
        values = tail[at_bytes].view("<f8")
        values *= random.uniform(_LEAST_FACTOR, 1.0, size=values.shape)
        tail[at_bytes] = values.view(np.uint8)
    if len(template.varints):
        tail[template.varints] = random.integers(0, 128, size=len(template.varints), dtype=np.uint8) | _MULTI_BYTE
    return out + tail.tobytes()


def _renamed(name: bytes, kernel: int) -> bytes:
    """Put a number behind the name of the function."""
    head, bracket, rest = name.partition(b"<") if b"<" in name else name.partition(b"(")
    return head + b"_%d" % kernel + bracket + rest


if __name__ == "__main__":
    sys.exit(main())
