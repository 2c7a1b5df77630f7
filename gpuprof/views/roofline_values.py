"""A roofline as data: its ceilings, points, ranges and notes, in FLOP/byte and FLOP/s."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpuprof.views.plot import Extent

Side = Literal["", "base", "new"]


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
    side of the ridge the point lies. `is_main` is false for other paths and levels of the same kernel. `uncertified`:
    nothing verifies the counters of the path's work. `key` is what the number beside the point means; empty if it has
    none. `side` is that of a comparison, in which a faint point is drawn for the others' sake.
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
    is_main: bool
    key: str = ""
    side: Side = ""
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
