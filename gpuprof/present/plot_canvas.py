"""What a roofline is drawn on: places in points (1/72 inch), and the few things that are drawn there."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuprof.present.label_placement import Box, Occupied, Segment
from gpuprof.present.plot_marks import Dashes
from gpuprof.present.roofline_figure import Extent, RoofLine, RooflineFigure
from gpuprof.present.session_text import LEVEL_NAMES
from gpuprof.units import format_si, significant


class Stroke(NamedTuple):
    """How a line is drawn."""

    colour: str
    width: float
    dashes: Dashes = ()


class Mark(NamedTuple):
    """A mark of a point: its shape as matplotlib names it, its width, its edge and what fills it.

    One that is `faint` is drawn for the others' sake.
    """

    shape: str
    width: float
    edge: str
    fill: str
    edge_width: float = 1.0
    fill_opacity: float = 1.0
    faint: bool = False


class Canvas(ABC):
    """The axes that a figure is drawn on, in points from the lower left corner, and what is drawn there already.

    `layer` puts what is drawn over everything of a lower one.
    """

    def __init__(self, figure: RooflineFigure, size: Extent, colours: Mapping[str, str]) -> None:
        self.figure, self.size, self.colours = figure, size, colours
        self.occupied = Occupied(size)

    def at(self, x: float, y: float) -> Extent:
        """Return the place of a value in points."""
        (left, right), (bottom, top) = self.figure.intensity_range, self.figure.flop_per_s_range
        return (
            self.size[0] * math.log(x / left) / math.log(right / left),
            self.size[1] * math.log(y / bottom) / math.log(top / bottom),
        )

    def roof_at(self, roof: RoofLine) -> Segment:
        """Return the ends of a ceiling in points."""
        return self.at(*roof.line[0]), self.at(*roof.line[1])

    def text_in(self, box: Box, text: str, size: float, colour: str, gid: str = "") -> None:
        """Write a text into the box that was found for it."""
        self.text((box.left + 1, box.bottom + 2.2), text, size, colour, gid)
        self.occupied.add_text([box])

    def leader(self, ends: Segment) -> None:
        """Draw the thin line from a label to what it names."""
        self.segment(ends)
        self.occupied.add_line(ends)

    @abstractmethod
    def frame(self) -> None:
        """Draw the axes with their names, ticks and grid."""

    @abstractmethod
    def line(self, values: Sequence[Extent], stroke: Stroke, layer: float, gid: str = "") -> None:
        """Draw a line through values."""

    @abstractmethod
    def mark(self, value: Extent, mark: Mark, layer: float, gid: str) -> None:
        """Draw a mark at a value."""

    @abstractmethod
    def arrow(self, start: Extent, end: Extent, gaps: Sequence[float]) -> None:
        """Draw an arrow between values, so many points short of each."""

    @abstractmethod
    def segment(self, ends: Segment) -> None:
        """Draw the line of a leader, whose ends are in points."""

    @abstractmethod
    def text(self, place: Extent, text: str, size: float, colour: str, gid: str = "", rotation: float = 0.0) -> None:
        """Write a text that begins at a place in points, turned by degrees, on a faint ground."""


def axis_names(figure: RooflineFigure) -> tuple[str, str]:
    """Return what the horizontal and the vertical axis of a figure are called."""
    one_level = len(figure.levels) == 1
    traffic = f"of {LEVEL_NAMES[figure.levels[0]]} traffic" if one_level else "at each level"
    return f"arithmetic intensity, {figure.unit} per byte {traffic}", f"performance, {figure.unit}/s"


def number_on_x(value: float) -> str:
    """Write an arithmetic intensity on its axis."""
    return significant(value, 1)


def number_on_y(value: float) -> str:
    """Write a performance on its axis."""
    return format_si(value, "", 1)
