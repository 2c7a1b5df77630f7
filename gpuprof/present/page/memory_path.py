"""The way of the data as a drawing: SM, L1, L2 and DRAM, with arrows as wide as the bytes that moved between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuprof.model.session import KernelProfile, Traffic
from gpuprof.present import words
from gpuprof.units import format_percent, format_si

_BOX_WIDTH, _GAP = 104.0, 148.0
_MIDDLE = 60.0
_WIDEST, _NARROWEST = 34.0, 2.0
_HEAD_LENGTH, _HEAD_OVERHANG = 10.0, 6.0
_LEVELS = ("l1", "l2", "dram")


@dataclass(frozen=True, slots=True)
class Station:
    """A box: an SM, a cache or the memory. `lines` are what is known of it."""

    level: str
    name: str
    left: str
    middle: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """The arrow between two boxes: its outline (None: not collected), and the texts above and below it."""

    level: str
    outline: str | None
    start: str
    end: str
    middle: str
    above: str
    below: str


@dataclass(frozen=True, slots=True)
class MemoryPath:
    """The whole drawing, and what it says for those who cannot see it."""

    stations: tuple[Station, ...]
    streams: tuple[Stream, ...]
    description: str
    widths: str


def memory_path(kernel: KernelProfile) -> MemoryPath | None:
    """Return the drawing of a kernel's traffic; None where none was collected."""
    traffic = {moved.level: moved for moved in kernel.traffic}
    if not traffic:
        return None
    by_rate = any(moved.bytes is None for moved in traffic.values())
    amounts = [_amount(traffic.get(level), by_rate=by_rate) for level in _LEVELS]
    largest = max((amount for amount in amounts if amount is not None), default=0.0)
    streams = tuple(
        _stream(index, level, traffic.get(level), amount / largest if amount is not None and largest else amount)
        for index, (level, amount) in enumerate(zip(_LEVELS, amounts, strict=True))
    )
    stations = tuple(_station(index, level, kernel, traffic.get(level)) for index, level in enumerate(("sm", *_LEVELS)))
    return MemoryPath(
        stations, streams, _description(stations, streams), "bytes per second" if by_rate else "bytes moved"
    )


def _amount(moved: Traffic | None, *, by_rate: bool) -> float | None:
    if moved is None:
        return None
    return moved.bytes_per_s if by_rate else moved.bytes


def _station(index: int, level: str, kernel: KernelProfile, moved: Traffic | None) -> Station:
    left = index * (_BOX_WIDTH + _GAP)
    busy = next((unit for unit in kernel.throughput if unit.unit == level), None)
    lines = [f"{format_percent(busy.fraction)} of peak"] if busy is not None else []
    if moved is not None and moved.hit_rate is not None:
        lines.insert(0, f"hit rate {format_percent(moved.hit_rate)}")
    elif level in ("l1", "l2"):
        lines.insert(0, "hits not collected")
    return Station(level, words.UNIT_NAMES[level], _number(left), _number(left + _BOX_WIDTH / 2), tuple(lines))


def _stream(index: int, level: str, moved: Traffic | None, fraction: float | None) -> Stream:
    start = index * (_BOX_WIDTH + _GAP) + _BOX_WIDTH + 6
    end = start + _GAP - 12
    above = below = ""
    if moved is not None and moved.bytes is not None:
        above = format_si(moved.bytes, "B")
    if moved is not None and moved.bytes_per_s is not None:
        below = format_si(moved.bytes_per_s, "B/s")
    return Stream(
        level=level,
        outline=_outline(start, end, fraction) if fraction is not None else None,
        start=_number(start),
        end=_number(end),
        middle=_number((start + end) / 2),
        above=above if above or below else words.NOT_COLLECTED,
        below=below,
    )


def _outline(start: float, end: float, fraction: float) -> str:
    """Return an arrow with a head at both ends: data moves both ways, and the counters hold the sum."""
    half = max(_NARROWEST, fraction * _WIDEST) / 2
    head = half + _HEAD_OVERHANG
    corners = [
        (start, 0.0), (start + _HEAD_LENGTH, -head), (start + _HEAD_LENGTH, -half), (end - _HEAD_LENGTH, -half),
        (end - _HEAD_LENGTH, -head), (end, 0.0), (end - _HEAD_LENGTH, head), (end - _HEAD_LENGTH, half),
        (start + _HEAD_LENGTH, half), (start + _HEAD_LENGTH, head),
    ]  # fmt: skip
    return " ".join(f"{_number(x)},{_number(_MIDDLE + y)}" for x, y in corners)


def _description(stations: Sequence[Station], streams: Sequence[Stream]) -> str:
    parts = []
    for index, stream in enumerate(streams):
        amount = ", ".join(text for text in (stream.above, stream.below) if text)
        parts.append(f"{stations[index].name} to {stations[index + 1].name}: {amount}")
    parts += [f"{station.name}: {', '.join(station.lines)}" for station in stations if station.lines]
    return "; ".join(parts)


def _number(value: float) -> str:
    return f"{value:.4g}"
