"""A plot as data: axes, areas, lines, marks, and the texts around them. `plot.py` draws it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

Extent = tuple[float, float]
Stroke = Literal["solid", "dashed", "bold", "dotted"]
MarkShape = Literal["s", "o", "^", "v", "D"]


class Axis(Struct, frozen=True):
    """An axis: its name, its ends, and its ticks as values with texts."""

    name: str
    ends: Extent
    ticks: tuple[tuple[float, str], ...]
    is_log: bool = False


class Area(Struct, frozen=True):
    """Steps over a base line: the height of each bin and the edges of the bins. A hatched one has no fill.

    `label` is written above it, `text` is shown on hover.
    """

    id: str
    edges: tuple[float, ...]
    tops: tuple[float, ...]
    base: float
    colour: str
    is_hatched: bool = False
    label: str = ""
    text: str = ""


class PlotLine(Struct, frozen=True):
    """A line through places. `label` is written along a slope, and above the right end of a flat line."""

    id: str
    places: tuple[Extent, ...]
    colour: str
    stroke: Stroke
    label: str = ""
    text: str = ""


class Mark(Struct, frozen=True):
    """A kernel at a place, with an id that is unique in the plot.

    `area` is in square points, `text` is shown on hover, `number` is written beside it if it is not empty.
    """

    id: str
    kernel: int
    place: Extent
    colour: str
    shape: MarkShape = "o"
    area: float = 40.0
    is_hollow: bool = False
    is_faint: bool = False
    text: str = ""
    number: str = ""


class Sample(NamedTuple):
    """What a colour with a shape, or a stroke, means."""

    meaning: str
    colour: str
    shape: MarkShape = "o"
    stroke: Stroke | None = None


class Plot(Struct, frozen=True):
    """Everything that a plot shows.

    `key` explains the numbers at the marks; `arrows` lead from one mark to another, by their places in `marks`.
    `notes` stand below a drawing in a file; a page writes them itself. `height` is that of the axes in points;
    samples stand in `columns`.
    """

    id: str
    title: str
    subtitle: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...] = ()
    areas: tuple[Area, ...] = ()
    lines: tuple[PlotLine, ...] = ()
    arrows: tuple[tuple[int, int], ...] = ()
    samples: tuple[Sample, ...] = ()
    key: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    height: float = 340.0
    columns: int = 4
