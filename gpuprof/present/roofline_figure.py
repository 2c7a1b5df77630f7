"""A roofline as pure data: its ceilings, points, ranges and notes, in FLOP/byte and FLOP/s."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

Extent = tuple[float, float]


class RoofLine(Struct, frozen=True):
    """One ceiling as a line inside the figure's ranges: a compute path's flat ceiling, or a level's bandwidth slope."""

    id: str
    kind: str
    origin: str
    path: str | None
    level: str | None
    name: str
    value: float
    clock_hz: float | None
    value_text: str
    style: str
    line: tuple[Extent, Extent]


class Ridge(Struct, frozen=True):
    """Where a bandwidth slope and a flat ceiling of one origin meet."""

    origin: str
    path: str
    level: str
    intensity: float
    flop_per_s: float


class FigurePoint(Struct, frozen=True):
    """One path of a kernel at one level. `caption` is what is written beside it; `main` the path that speaks for it.

    `source` is the short name of the kernel's file; empty where all are of one file, and in a figure of one kernel.
    `uncertified`: nothing vouches for the counters of the path's work. `side`: of a comparison;
    empty elsewhere. `faint`: it is drawn for the others' sake.
    """

    kernel: int
    label: str
    source: str
    caption: str
    path: str
    level: str
    intensity: float
    flop_per_s: float
    share: float | None
    roof_flop_per_s: float
    fraction_of_roof: float
    ceiling: str
    bound: str
    estimated: bool
    uncertified: bool
    main: bool
    side: Literal["", "base", "new"] = ""
    faint: bool = False

    @property
    def hollow(self) -> bool:
        """Tell whether it is drawn hollow: its place is less sure than that of others; in a comparison, it is base."""
        return self.side == "base" if self.side else self.estimated or self.uncertified


class Arrow(NamedTuple):
    """From where a kernel was on the base side of a comparison to where it is on the new side."""

    base: FigurePoint
    new: FigurePoint


class LeftOut(Struct, frozen=True):
    """Kernels that have no point, with the one reason they share and what would give them one."""

    kernels: tuple[int, ...]
    why: str
    how: str | None


class RooflineFigure(Struct, frozen=True):
    """Everything that a roofline shows. `sized`: the area of a point is the kernel's share of the time.

    `arrows` are of a comparison: from base to new.
    """

    id: str
    title: str
    subtitle: str
    device: int
    ceiling: str
    levels: tuple[str, ...]
    unit: str
    sized: bool
    intensity_range: Extent
    flop_per_s_range: Extent
    roofs: tuple[RoofLine, ...]
    ridges: tuple[Ridge, ...]
    points: tuple[FigurePoint, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    arrows: tuple[Arrow, ...] = ()
