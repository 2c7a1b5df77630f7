"""What a plot is drawn with, in points (1/72 inch) from the lower left corner of the axes."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gpuprof.present.roofline_figure import Extent

Dashes = tuple[float, ...]
"""Lengths of dashes and gaps, in widths of the line; empty where it is solid."""


class Line(NamedTuple):
    """A line through places. `title` is shown when a pointer rests on it."""

    places: tuple[Extent, ...]
    colour: str
    width: float
    dashes: Dashes = ()
    id: str = ""
    title: str = ""


class Mark(NamedTuple):
    """A mark at a place: its shape as matplotlib names it, its edge and what fills it, turned by degrees.

    `kernel` is the number of the kernel whose point it is.
    """

    place: Extent
    shape: str
    width: float
    edge: str
    fill: str
    edge_width: float = 1.0
    edge_opacity: float = 1.0
    fill_opacity: float = 1.0
    rotation: float = 0.0
    id: str = ""
    title: str = ""
    kernel: int | None = None


class Label(NamedTuple):
    """A text, turned by degrees; `anchor` is the part of its baseline that is at the place.

    Over other shapes it has a faint ground of a colour.
    """

    place: Extent
    text: str
    size: float
    colour: str
    anchor: Literal["start", "middle", "end"] = "start"
    rotation: float = 0.0
    bold: bool = False
    ground: str = ""
    id: str = ""


Shape = Line | Mark | Label
