"""The ceilings of a roofline: which are drawn, at which clock, where they meet, and as lines within its ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.field_types import ORIGINS
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.session import Ceiling
from gpuprof.units import format_si
from gpuprof.views.plot_values import Extent
from gpuprof.views.roofline_values import Ridge, RoofLine, RooflinePlace
from gpuprof.words.profile_values import LEVEL_NAMES

_NO_RANGES = ((0.1, 1e3), (1e9, 1e13))
_DECADES = 1e3


class DrawnRoofs(Struct, frozen=True):
    """Ceilings as lines, their ridges, and the ranges that show them and the points."""

    lines: tuple[RoofLine, ...]
    ridges: tuple[Ridge, ...]
    intensities: Extent
    rates: Extent


def drawn_roofs(ceilings: Sequence[Ceiling], points: Sequence[RooflinePlace]) -> DrawnRoofs:
    """Return ceilings as lines in ranges that suit them and the points."""
    ridges = tuple(_ridges(ceilings))
    intensities, rates = _ranges(ceilings, ridges, points)
    return DrawnRoofs(tuple(_lines(ceilings, intensities, rates)), ridges, intensities, rates)


def shown_ceilings(ceilings: Sequence[Ceiling], paths: Collection[str], levels: Sequence[str]) -> list[Ceiling]:
    """Return the ceilings of these paths and levels in the order of origins; without paths, those of all heights."""
    shown = []
    heights = set()
    for ceiling in ceilings:
        if ceiling.level is not None:
            is_shown = ceiling.level in levels
        elif paths:
            is_shown = ceiling.path in paths
        else:
            is_shown = ceiling.value not in heights and "int" not in (ceiling.path or "")
            heights.add(ceiling.value)
        if is_shown:
            shown.append(ceiling)
    order = (*LEVELS, *PATHS)
    return sorted(shown, key=lambda item: (ORIGINS.index(item.origin), order.index(item.level or item.path or "")))


def _ridges(ceilings: Sequence[Ceiling]) -> Iterator[Ridge]:
    for flat in ceilings:
        for slope in ceilings:
            if flat.path is not None and slope.level is not None and flat.origin == slope.origin:
                yield Ridge(flat.origin, flat.path, slope.level, flat.value / slope.value, flat.value)


def _ranges(
    ceilings: Sequence[Ceiling], ridges: Sequence[Ridge], points: Sequence[RooflinePlace]
) -> tuple[Extent, Extent]:
    """Return ranges that show every point and ridge, with room for labels and at least three decades."""
    slopes = [ceiling.value for ceiling in ceilings if ceiling.level is not None]
    flats = [ceiling.value for ceiling in ceilings if ceiling.path is not None]
    intensities = [*(point.intensity for point in points), *(ridge.intensity for ridge in ridges)]
    if not intensities and not slopes:
        return _NO_RANGES
    low = min(intensities, default=1.0) / 6
    high = max(intensities, default=1.0) * 8
    if ridges:
        # Two fifths of the width for the flat ceilings, whose labels need it.
        last = max(ridge.intensity for ridge in ridges)
        high = max(high, last * (last / low) ** 0.65)
    missing = max(1.0, _DECADES * low / high)
    low /= missing**0.5
    high *= missing**0.5
    rates = [*(point.flop_per_s for point in points), *flats]
    if not rates:
        rates = [bandwidth * intensity for bandwidth in slopes for intensity in (low, high)]
    top = max(rates) * 4
    bottom = min(min(rates) / 5, top / _DECADES)
    if slopes:
        # A slope that leaves the frame at once shows nothing: keep two decades of the lowest one.
        bottom = min(bottom, max(flats, default=top) / 100)
    return (low, high), (bottom, top)


def _lines(ceilings: Sequence[Ceiling], intensities: Extent, rates: Extent) -> Iterator[RoofLine]:
    """Yield slopes up to the highest flat ceiling of their origin, and flat ones from the steepest slope on."""
    for ceiling in ceilings:
        crossing = [other for other in ceilings if (other.level is None) != (ceiling.level is None)]
        values = [other.value for other in crossing if other.origin == ceiling.origin]
        values = values or [other.value for other in crossing]
        start, end = intensities
        if ceiling.level is not None:
            start = max(start, rates[0] / ceiling.value)
            end = min(end, min([rates[1], max(values, default=rates[1])]) / ceiling.value)
            line = ((start, start * ceiling.value), (end, end * ceiling.value))
        else:
            if values:
                start = max(start, ceiling.value / max(values))
            line = ((start, ceiling.value), (end, ceiling.value))
        if start < end:
            yield _roof_line(ceiling, line)


def _roof_line(ceiling: Ceiling, line: tuple[Extent, Extent]) -> RoofLine:
    if ceiling.level is not None:
        name = LEVEL_NAMES[ceiling.level]
        value_text = format_si(ceiling.value, "B/s")
    else:
        name = path_name(ceiling.path or "")
        value_text = format_si(ceiling.value, work_unit(ceiling.path or ""))
    if ceiling.origin != "at-clock":
        value_text += f" {ceiling.origin}"
    elif ceiling.clock_hz:
        value_text += f" at {format_si(ceiling.clock_hz, 'Hz')}"
    else:
        value_text += " at clock"
    return RoofLine(
        id=f"{ceiling.origin}/{ceiling.level or ceiling.path}",
        origin=ceiling.origin,
        path=ceiling.path,
        level=ceiling.level,
        name=name,
        value=ceiling.value,
        clock_hz=ceiling.clock_hz,
        value_text=value_text,
        line=line,
    )
