"""The parts of a report file as they lie in it, and reports of some of its launches."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator

from msgspec import Struct

from benchmarks.raw_fields import raw_fields
from gpuprof.read.container import PAYLOAD_SIZE, PROCESS, SESSION, STRINGS, blocks
from gpuprof.read.file_bytes import Bytes
from gpuprof.read.protobuf import Malformed
from gpuprof.read.wire import number, prefixed

_SOURCES, _RESULTS = 1, 2
"""Fields of a BlockHeader that declare how many of each follow."""


class RawBlock(Struct, frozen=True):
    """Where the parts of one block lie: its header, and its messages by kind. `before` is what precedes the block."""

    before: bytes
    header: tuple[int, int]
    sources: list[tuple[int, int]]
    kernels: list[tuple[int, int]]
    rest: list[tuple[int, int]]


def raw_blocks(data: Bytes) -> Iterator[RawBlock]:
    """Yield the blocks of an undamaged report."""
    before = data[: 8 + int.from_bytes(data[4:8], "little")]
    for block in blocks(data):
        first = block.declared.get(_SOURCES, 0)
        behind = first + block.declared.get(_RESULTS, 0)
        sources, kernels, rest = block.messages[:first], block.messages[first:behind], block.messages[behind:]
        yield RawBlock(before, block.header, sources, kernels=kernels, rest=rest)
        before = b""


def excerpt(data: Bytes, places: Iterable[int], programs: Container[int]) -> bytes:
    """Return a report with the launches and the programs whose messages lie at some places of another.

    What lies behind damage is left out.
    """
    return b"".join(_pieces(data, frozenset(places), programs))


def _pieces(data: Bytes, chosen: frozenset[int], programs: Container[int]) -> Iterator[bytes]:
    for block in _whole_blocks(data):
        kernels = [span for span in block.kernels if span[0] in chosen]
        sources = [span for span in block.sources if span[0] in programs]
        header = data[slice(*block.header)]
        kept = [header[first:last] for field, first, last in raw_fields(header) if field in (SESSION, STRINGS, PROCESS)]
        payload = b"".join(data[first - 4 : last] for first, last in (*sources, *kernels))
        counts = number(_SOURCES, len(sources)) + number(_RESULTS, len(kernels)) + number(PAYLOAD_SIZE, len(payload))
        yield from (block.before, prefixed(b"".join(kept) + counts), payload)


def _whole_blocks(data: Bytes) -> Iterator[RawBlock]:
    with contextlib.suppress(Malformed):
        yield from raw_blocks(data)
