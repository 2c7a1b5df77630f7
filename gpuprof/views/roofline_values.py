"""A roofline as data, in FLOP/byte and FLOP/s: its points, its ceilings as lines, ranges and notes."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.field_types import ORIGINS
from gpuprof.model.path_names import work_unit
from gpuprof.model.session import Ceiling
from gpuprof.units import format_si
from gpuprof.views.plot import Extent
from gpuprof.words.profile_values import ceiling_name, ceiling_text

# Room around the points and ridges: more on the right, for the texts of flat ceilings.
_LEFT = 6
_RIGHT = 30
_ABOVE_AND_BELOW = 4
# Minimum ratio of the highest to the lowest rate.
_DECADES = 1e4


class RoofLine(Struct, frozen=True):
    """A ceiling as a line in the ranges of its figure: the flat one of a path, or the bandwidth slope of a level."""

    id: str
    origin: str
    path: str | None
    level: str | None
    name: str
    value: float
    clock_hz: float | None
    value_text: str
    line: tuple[Extent, Extent]


class Ridge(Struct, frozen=True):
    """Where a bandwidth slope and a flat ceiling of one origin meet."""

    origin: str
    path: str
    level: str
    intensity: float
    flop_per_s: float


class RooflinePlace(Struct, frozen=True):
    """One path of a kernel at one level.

    `limit` is what limits the kernel by its diagnosis, and `colour` the role of colour for that. `ridge` says on which
    side of the ridge the point lies. `uncertified`: nothing verifies the counters of the path's work. `key` is what the
    number beside the point means; empty if it has none. `side` is that of a comparison, in which a faint point is drawn
    for the others' sake.
    """

    kernel: int
    label: str
    source: str
    path: str
    level: str
    intensity: float
    flop_per_s: float
    share: float | None
    roof_flop_per_s: float
    fraction_of_roof: float
    ceiling: str
    ridge: Literal["left", "right"]
    limit: str
    colour: str
    estimated: bool
    uncertified: bool
    key: str = ""
    side: Literal["", "base", "new"] = ""
    faint: bool = False

    @property
    def is_hollow(self) -> bool:
        """Return whether its place is less sure than that of others; in a comparison, whether it is of the base."""
        return self.side == "base" if self.side else self.estimated or self.uncertified


class LeftOut(Struct, frozen=True):
    """Kernels that have no point, with their common reason and what would give them one."""

    kernels: tuple[int, ...]
    why: str
    how: str | None


class Roofline(Struct, frozen=True):
    """Everything that a roofline shows. `sized`: the area of a point is the kernel's share of the time.

    Its ranges are those of what is drawn. `arrows` lead from one of the points to another, by their places in `points`.
    """

    id: str
    title: str
    subtitle: str
    device: int
    ceiling: str
    levels: tuple[str, ...]
    points: tuple[RooflinePlace, ...]
    unit: str = "FLOP"
    sized: bool = True
    intensity_range: Extent = (0.1, 1e3)
    flop_per_s_range: Extent = (1e9, 1e13)
    roofs: tuple[RoofLine, ...] = ()
    ridges: tuple[Ridge, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    arrows: tuple[tuple[int, int], ...] = ()


def with_ceilings(figure: Roofline, ceilings: Sequence[Ceiling]) -> Roofline:
    """Return a roofline with these ceilings as lines, and with ranges that show them and its points.

    Slopes end at the highest flat ceiling of their origin, and flat ones begin at the steepest slope.
    """
    slopes = [ceiling for ceiling in ceilings if ceiling.level is not None]
    flats = [ceiling for ceiling in ceilings if ceiling.level is None]
    ridges = []
    for flat in flats:
        for slope in slopes:
            if flat.origin == slope.origin:
                place = flat.value / slope.value
                ridges.append(Ridge(flat.origin, flat.path or "", slope.level or "", place, flat.value))
    intensities = [point.intensity for point in figure.points] + [ridge.intensity for ridge in ridges]
    low = min(intensities, default=1.0) / _LEFT
    high = max(intensities, default=1.0) * _RIGHT
    rates = [*(point.flop_per_s for point in figure.points), *(flat.value for flat in flats)]
    rates += [slope.value * low for slope in slopes]
    top = max(rates, default=1e12) * _ABOVE_AND_BELOW
    bottom = min(min(rates, default=1e12) / _ABOVE_AND_BELOW, top / _DECADES)
    roofs = []
    for ceiling in ceilings:
        crossing = slopes if ceiling.level is None else flats
        end = max((other.value for other in crossing if other.origin == ceiling.origin), default=math.inf)
        if ceiling.level is not None:
            last = min(high, end / ceiling.value)
            line = ((low, low * ceiling.value), (last, last * ceiling.value))
        else:
            line = ((max(low, ceiling.value / end), ceiling.value), (high, ceiling.value))
        roofs.append(_roof_line(ceiling, line))
    units = {work_unit(point.path, per_second=False) for point in figure.points}
    return replace(
        figure,
        unit="OP" if units == {"OP"} else "FLOP",
        intensity_range=(low, high),
        flop_per_s_range=(bottom, top),
        roofs=tuple(roofs),
        ridges=tuple(ridges),
    )


def shown_ceilings(ceilings: Sequence[Ceiling], paths: Collection[str], levels: Sequence[str]) -> list[Ceiling]:
    """Return the ceilings of these paths and levels in the order of origins."""
    shown = [item for item in ceilings if item.path in paths or item.level in levels]
    order = (*LEVELS, *PATHS)
    return sorted(shown, key=lambda item: (ORIGINS.index(item.origin), order.index(item.level or item.path or "")))


def _roof_line(ceiling: Ceiling, line: tuple[Extent, Extent]) -> RoofLine:
    of: str = ceiling.origin
    if of == "at-clock" and ceiling.clock_hz is not None:
        of = f"at {format_si(ceiling.clock_hz, 'Hz')}"
    return RoofLine(
        id=f"{ceiling.origin}/{ceiling.level or ceiling.path}",
        origin=ceiling.origin,
        path=ceiling.path,
        level=ceiling.level,
        name=ceiling_name(ceiling),
        value=ceiling.value,
        clock_hz=ceiling.clock_hz,
        value_text=f"{ceiling_text(ceiling)} {of}",
        line=line,
    )
