"""The memory path as a drawing: SM, L1, L2 and DRAM, with arrows as wide as the bytes that moved between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gpuprof.hardware.specs import LEVELS
from gpuprof.model.session import KernelProfile, Traffic
from gpuprof.units import format_percent, format_si
from gpuprof.words.profile_values import LEVEL_NAMES, NOT_COLLECTED, UNIT_NAMES

_BOX_WIDTH, _GAP = 116.0, 132.0
_MIDDLE = 60.0
_WIDEST, _NARROWEST = 34.0, 2.0
_HEAD_LENGTH, _HEAD_OVERHANG = 10.0, 6.0
_COUNTER = "__"
"""Part of the name of every counter, and of no word."""


class Station(Struct, frozen=True):
    """A box: an SM, a cache or the memory. `lines` are what is known of it."""

    level: str
    name: str
    left: str
    middle: str
    lines: tuple[str, ...]


class Stream(Struct, frozen=True):
    """The arrow between two boxes: its outline (None: not collected), the texts above and below it, and "estimated"."""

    level: str
    outline: str | None
    start: str
    end: str
    middle: str
    above: str
    below: str
    mark: str


class MemoryPath(Struct, frozen=True):
    """The whole drawing, what it says for those who cannot see it, and what its widths and figures count."""

    stations: tuple[Station, ...]
    streams: tuple[Stream, ...]
    description: str
    widths: str
    counted: str


def memory_path(kernel: KernelProfile) -> MemoryPath | None:
    """Return the drawing of a kernel's traffic; None where none was collected."""
    traffic: dict[str, Traffic] = {moved.level: moved for moved in kernel.traffic}
    if not traffic:
        return None
    by_rate = any(moved.bytes is None for moved in traffic.values())
    amounts = {level: _amount(moved, by_rate=by_rate) for level, moved in traffic.items()}
    known = {level: amount for level, amount in amounts.items() if amount is not None}
    if len(known) == 1:
        fractions, widths = _fraction_of_peak(kernel, *known)
    else:
        largest = max(known.values(), default=0.0)
        fractions = {level: amount / largest if largest else 0.0 for level, amount in known.items()}
        widths = f"Arrow width: {'bytes per second' if by_rate else 'bytes moved'}, both directions together."
    streams = tuple(
        _stream(index, level, traffic.get(level), fractions.get(level)) for index, level in enumerate(LEVELS)
    )
    stations = tuple(_station(index, level, kernel, traffic.get(level)) for index, level in enumerate(("sm", *LEVELS)))
    counted = "; ".join(_counted(traffic))
    return MemoryPath(
        stations=stations,
        streams=streams,
        description=_description(stations, streams),
        widths=widths,
        counted=f"Counted {counted}." if counted else "",
    )


def _fraction_of_peak(kernel: KernelProfile, level: str) -> tuple[dict[str, float], str]:
    """Return the width of the only arrow that there is: nothing but the peak can be held against it."""
    busy = _busy(kernel, level)
    if busy is None:
        return {level: 0.0}, "Arrow width: not to scale; no other level was collected."
    return {level: min(1.0, busy)}, f"Arrow width: {UNIT_NAMES[level]} throughput, as a share of its peak."


def _busy(kernel: KernelProfile, level: str) -> float | None:
    known = (unit for unit in kernel.throughput if unit.bound is None)
    return next((unit.fraction for unit in known if unit.unit == level), None)


def _counted(traffic: Mapping[str, Traffic]) -> Iterator[str]:
    """Yield what a level's figures count, in words, where its counters name more or less than all of its traffic."""
    for level in LEVELS:
        if level in traffic:
            definition = ", ".join(part for part in traffic[level].definition.split(": ") if _COUNTER not in part)
            if definition:
                yield f"at {LEVEL_NAMES[level]}: {definition}"


def _amount(moved: Traffic | None, *, by_rate: bool) -> float | None:
    if moved is None:
        return None
    return moved.bytes_per_s if by_rate else moved.bytes


def _station(index: int, level: str, kernel: KernelProfile, moved: Traffic | None) -> Station:
    left = index * (_BOX_WIDTH + _GAP)
    busy = _busy(kernel, level)
    lines = [f"{format_percent(busy)} of peak"] if busy is not None else []
    if moved is not None and moved.hit_rate is not None:
        lines.insert(0, f"hit rate {format_percent(moved.hit_rate)}")
    elif level in ("l1", "l2"):
        is_used = moved is None or moved.bytes or moved.bytes_per_s
        lines.insert(0, "hit rate unknown" if is_used else "not accessed")
    middle = _number(left + _BOX_WIDTH / 2)
    return Station(level, UNIT_NAMES[level], _number(left), middle=middle, lines=tuple(lines))


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
        above=above if above or below else NOT_COLLECTED,
        below=below,
        mark="estimated" if moved is not None and moved.basis == "estimated" else "",
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
        amount = ", ".join(text for text in (stream.above, stream.below, stream.mark) if text)
        parts.append(f"{stations[index].name} to {stations[index + 1].name}: {amount}")
    parts += [f"{station.name}: {', '.join(station.lines)}" for station in stations if station.lines]
    return "; ".join(parts)


def _number(value: float) -> str:
    return f"{value:.4g}"
