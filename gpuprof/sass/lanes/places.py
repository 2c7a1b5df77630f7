"""Where the lanes of a request lie, of its address, and which of them take part."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from gpuprof.sass.lanes.arithmetic import Wide
from gpuprof.sass.lanes.operands import Reader
from gpuprof.sass.lanes.values import LANES, WORD
from gpuprof.sass.requests import LaneRequest


class LanePlaces(NamedTuple):
    """How far each lane lies from lane 0, which lies `start` behind a multiple of `alignment`, in bytes."""

    offsets: tuple[int, ...]
    start: int
    alignment: int


def place_of(reader: Reader, request: LaneRequest) -> LanePlaces | None:
    """Return where the lanes of a request lie; None where that is not known."""
    where = reader.address(request.operand, wide=request.wide)
    return _places(where, wide=request.wide) if where is not None else None


@lru_cache(maxsize=1 << 12)
def _places(where: Wide, *, wide: bool) -> LanePlaces:
    size = WORD * WORD if wide else WORD
    first, half = where.lanes[0], size // 2
    return LanePlaces(
        offsets=tuple([(lane - first + half) % size - half for lane in where.lanes]),
        start=first % size % (1 << where.align),
        alignment=1 << where.align,
    )


@lru_cache(maxsize=1 << 8)
def lanes_of(bits: int) -> tuple[bool, ...]:
    """Return of each lane whether its bit is set."""
    return tuple(bool(bits >> lane & 1) for lane in range(LANES))
