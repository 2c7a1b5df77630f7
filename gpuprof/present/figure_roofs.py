"""The ceilings of a figure: which are drawn, at which clock, where they meet, and as lines within its ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.field_types import ORIGINS
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.session import Ceiling, KernelProfile
from gpuprof.present.roofline_figure import Extent, FigurePoint, Ridge, RoofLine
from gpuprof.units import format_si
from gpuprof.words.profile_values import LEVEL_NAMES

STYLES = {"rated": "dashed", "at-clock": "solid", "measured": "bold"}
_NO_RANGE = ((0.1, 1e3), (1e9, 1e13))


class DrawnRoofs(Struct, frozen=True):
    """Ceilings as lines, their ridges, and the ranges of intensity and FLOP/s that hold them and the points."""

    lines: tuple[RoofLine, ...]
    ridges: tuple[Ridge, ...]
    intensities: Extent
    rates: Extent


def drawn_roofs(ceilings: Sequence[Ceiling], points: Sequence[FigurePoint]) -> DrawnRoofs:
    """Draw ceilings as lines in ranges that suit them and the points."""
    ridges = tuple(_ridges(ceilings))
    intensities, rates = _ranges(ceilings, ridges, points)
    return DrawnRoofs(tuple(_lines(ceilings, intensities, rates)), ridges, intensities, rates=rates)


def at_kernel_clock(ceiling: Ceiling, kernel: KernelProfile) -> Ceiling:
    """Move an at-clock ceiling to the kernel's own clock: as a point of the kernel shows it, else in scale."""
    if ceiling.origin == "measured":
        return ceiling
    exact = _seen_value(ceiling, kernel)
    if ceiling.path is not None:
        clock = kernel.sm_clock_hz if ceiling.origin == "at-clock" else ceiling.clock_hz
        scale = clock / ceiling.clock_hz if clock and ceiling.clock_hz else 1.0
        value = exact or ceiling.value * scale
        return replace(ceiling, value=value, clock_hz=clock or ceiling.clock_hz)
    if ceiling.origin == "rated":
        return ceiling
    if exact is None and ceiling.level == "l1" and kernel.sm_clock_hz and ceiling.clock_hz:
        exact = ceiling.value * kernel.sm_clock_hz / ceiling.clock_hz
    if exact is None:
        return ceiling
    # L2's can be lower because of the kernel's writes, not of its clock.
    clock = ceiling.clock_hz * exact / ceiling.value if ceiling.clock_hz and ceiling.level != "l2" else None
    return replace(ceiling, value=exact, clock_hz=clock)


def _seen_value(ceiling: Ceiling, kernel: KernelProfile) -> float | None:
    """Return the ceiling that the kernel's own points were held against, if one of them lies under that side."""
    for point in kernel.roofline:
        if point.ceiling != ceiling.origin:
            continue
        if ceiling.path == point.path and point.bound == "compute":
            return point.roof_flop_per_s
        if ceiling.level == point.level and point.bound == "memory":
            return point.roof_flop_per_s / point.intensity
    return None


def shown_ceilings(ceilings: Sequence[Ceiling], paths: set[str], levels: Sequence[str]) -> list[Ceiling]:
    """Keep the ceilings of paths that occur (if none does, one of each height) and of the levels shown, in order."""
    wanted = paths or _one_of_each_height(ceilings)
    shown = [
        ceiling
        for ceiling in ceilings
        if (ceiling.path in wanted if ceiling.path is not None else ceiling.level in levels)
    ]
    order = {name: index for index, name in enumerate((*LEVELS, *PATHS))}
    return sorted(
        shown, key=lambda ceiling: (ORIGINS.index(ceiling.origin), order[ceiling.path or ceiling.level or "l1"])
    )


def _one_of_each_height(ceilings: Sequence[Ceiling]) -> set[str]:
    """Return the floating-point paths whose ceilings differ: the first of those that are equally high."""
    heights: dict[float, str] = {}
    for ceiling in ceilings:
        if ceiling.path is not None and "int" not in ceiling.path:
            heights.setdefault(ceiling.value, ceiling.path)
    return set(heights.values())


def _ridges(ceilings: Sequence[Ceiling]) -> Iterator[Ridge]:
    """Yield the ridge of every flat ceiling with every slope of the same origin."""
    for flat in ceilings:
        for slope in ceilings:
            if flat.path is not None and slope.level is not None and flat.origin == slope.origin:
                intensity = flat.value / slope.value
                yield Ridge(flat.origin, flat.path, slope.level, intensity=intensity, flop_per_s=flat.value)


def _ranges(
    ceilings: Sequence[Ceiling], ridges: Sequence[Ridge], points: Sequence[FigurePoint]
) -> tuple[Extent, Extent]:
    """Return ranges that hold every point and ridge with room for labels, and at least three decades of both axes."""
    slopes = [ceiling.value for ceiling in ceilings if ceiling.level is not None]
    flats = [ceiling.value for ceiling in ceilings if ceiling.path is not None]
    intensities = [point.intensity for point in points] + [ridge.intensity for ridge in ridges]
    rates = [point.flop_per_s for point in points] + flats
    if not intensities and not slopes:
        return _NO_RANGE
    low, high = min(intensities, default=1.0) / 6, max(intensities, default=1.0) * 8
    if ridges:
        # Two fifths of the width for the flat ceilings, whose labels need it.
        last = max(ridge.intensity for ridge in ridges)
        high = max(high, last * (last / low) ** 0.65)
    low, high = _widened(low, high)
    rates = rates or [bandwidth * intensity for bandwidth in slopes for intensity in (low, high)]
    bottom, top = min(rates) / 5, max(rates) * 4
    if slopes:
        # A slope that would leave the frame at once shows nothing: keep two decades of the lowest one.
        bottom = min(bottom, max(flats, default=top) / 100)
    return (low, high), _widened(bottom, top, upwards=False)


def _widened(low: float, high: float, *, upwards: bool = True) -> Extent:
    """Widen a range to three decades: both ways, or downwards only."""
    missing = 1e3 * low / high
    if missing <= 1:
        return low, high
    return (low / missing**0.5, high * missing**0.5) if upwards else (low / missing, high)


def _lines(ceilings: Sequence[Ceiling], intensities: Extent, rates: Extent) -> Iterator[RoofLine]:
    """Yield the lines: slopes up to the highest flat ceiling of their origin, flat ones from the leftmost slope on."""
    for ceiling in ceilings:
        line = _slope(ceiling, ceilings, intensities, rates) if ceiling.level else _flat(ceiling, ceilings, intensities)
        if line is None:
            continue
        name = LEVEL_NAMES[ceiling.level] if ceiling.level is not None else path_name(ceiling.path or "")
        yield RoofLine(
            id=f"{ceiling.origin}/{ceiling.level or ceiling.path}",
            kind="bandwidth" if ceiling.level else "compute",
            origin=ceiling.origin,
            path=ceiling.path,
            level=ceiling.level,
            name=name,
            value=ceiling.value,
            clock_hz=ceiling.clock_hz,
            value_text=_value_text(ceiling),
            style=STYLES[ceiling.origin],
            line=line,
        )


def _slope(
    ceiling: Ceiling, ceilings: Sequence[Ceiling], intensities: Extent, rates: Extent
) -> tuple[Extent, Extent] | None:
    same = [other.value for other in ceilings if other.path is not None and other.origin == ceiling.origin]
    top = max(same or [other.value for other in ceilings if other.path is not None], default=rates[1])
    start = max(intensities[0], rates[0] / ceiling.value)
    end = min(intensities[1], top / ceiling.value, rates[1] / ceiling.value)
    return ((start, start * ceiling.value), (end, end * ceiling.value)) if start < end else None


def _flat(ceiling: Ceiling, ceilings: Sequence[Ceiling], intensities: Extent) -> tuple[Extent, Extent] | None:
    slopes = [other for other in ceilings if other.level is not None]
    same = [other.value for other in slopes if other.origin == ceiling.origin] or [other.value for other in slopes]
    start = max(intensities[0], ceiling.value / max(same)) if same else intensities[0]
    return ((start, ceiling.value), (intensities[1], ceiling.value)) if start < intensities[1] else None


def _value_text(ceiling: Ceiling) -> str:
    value = format_si(ceiling.value, "B/s" if ceiling.level else work_unit(ceiling.path or ""))
    if ceiling.origin != "at-clock":
        return f"{value} {ceiling.origin}"
    return f"{value} at {format_si(ceiling.clock_hz, 'Hz')}" if ceiling.clock_hz else f"{value} at clock"
