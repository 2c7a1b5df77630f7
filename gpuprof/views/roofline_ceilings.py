"""The ceilings of a roofline: which are drawn, where they meet, and as lines within its ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.field_types import ORIGINS
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.session import Ceiling
from gpuprof.units import format_si
from gpuprof.views.plot import Extent
from gpuprof.views.roofline_values import Ridge, RoofLine, Roofline
from gpuprof.words.profile_values import LEVEL_NAMES

# Room around the points and ridges: more on the right, for the texts of flat ceilings.
_LEFT = 6
_RIGHT = 30
_ABOVE = 4
_BELOW = 4
# The least range of rates.
_DECADES = 1e4


def with_ceilings(figure: Roofline, ceilings: Sequence[Ceiling]) -> Roofline:
    """Return a roofline with these ceilings as lines, and with ranges that show them and its points."""
    units = {work_unit(point.path, per_second=False) for point in figure.points}
    ridges = tuple(_ridges(ceilings))
    intensities, rates = _ranges(figure, ceilings, ridges)
    return replace(
        figure,
        unit="OP" if units == {"OP"} else "FLOP",
        intensity_range=intensities,
        flop_per_s_range=rates,
        roofs=tuple(_lines(ceilings, intensities, rates[1])),
        ridges=ridges,
    )


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


def _ranges(figure: Roofline, ceilings: Sequence[Ceiling], ridges: Sequence[Ridge]) -> tuple[Extent, Extent]:
    """Return ranges that show every point, ridge and ceiling."""
    intensities = [point.intensity for point in figure.points] + [ridge.intensity for ridge in ridges]
    intensities = intensities or [1.0]
    low = min(intensities) / _LEFT
    rates = [point.flop_per_s for point in figure.points]
    for ceiling in ceilings:
        rates.append(ceiling.value if ceiling.path is not None else ceiling.value * low)
    if not rates:
        return figure.intensity_range, figure.flop_per_s_range
    top = max(rates) * _ABOVE
    return (low, max(intensities) * _RIGHT), (min(min(rates) / _BELOW, top / _DECADES), top)


def _lines(ceilings: Sequence[Ceiling], intensities: Extent, top: float) -> Iterator[RoofLine]:
    """Yield slopes up to the highest flat ceiling of their origin, and flat ones from the steepest slope on."""
    start, end = intensities
    for ceiling in ceilings:
        crossing = [other for other in ceilings if (other.level is None) != (ceiling.level is None)]
        values = [other.value for other in crossing if other.origin == ceiling.origin]
        highest = max(values or [other.value for other in crossing], default=None)
        if ceiling.level is not None:
            last = min(end, (highest or top) / ceiling.value)
            yield _roof_line(ceiling, ((start, start * ceiling.value), (last, last * ceiling.value)))
        else:
            first = max(start, ceiling.value / highest) if highest is not None else start
            yield _roof_line(ceiling, ((first, ceiling.value), (end, ceiling.value)))


def _roof_line(ceiling: Ceiling, line: tuple[Extent, Extent]) -> RoofLine:
    value = format_si(ceiling.value, "B/s" if ceiling.level is not None else work_unit(ceiling.path or ""))
    if ceiling.origin != "at-clock":
        of: str = ceiling.origin
    else:
        of = f"at {format_si(ceiling.clock_hz, 'Hz')}" if ceiling.clock_hz else "at clock"
    return RoofLine(
        id=f"{ceiling.origin}/{ceiling.level or ceiling.path}",
        origin=ceiling.origin,
        path=ceiling.path,
        level=ceiling.level,
        name=LEVEL_NAMES[ceiling.level] if ceiling.level is not None else path_name(ceiling.path or ""),
        value=ceiling.value,
        clock_hz=ceiling.clock_hz,
        value_text=f"{value} {of}",
        line=line,
    )
