"""The inside of a RooflineFigure as shapes: ceilings, points and labels, and what stands at its axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy

from gpuprof.present.label_placement import Beside, Box, Occupied, Segment, place_along, place_around, place_beside
from gpuprof.present.plot_labels import point_labels, point_title, roof_labels
from gpuprof.present.plot_marks import (
    FILL_OPACITY,
    MARKERS,
    STROKES,
    family,
    point_area,
    point_reach,
    point_width,
    roof_colour,
)
from gpuprof.present.plot_shapes import Label, Line, Mark, Shape
from gpuprof.present.plot_text import SMALL, TEXT, text_width
from gpuprof.present.roofline_figure import Arrow, Extent, FigurePoint, Ridge, RoofLine, RooflineFigure
from gpuprof.units import format_si, significant
from gpuprof.words.profile_values import LEVEL_NAMES

_CROWDED = 20.0
"""A ceiling's label that costs more than this along its line may stand beside it."""
_RIDGE_COST = 8.0
"""A ridge's label that costs more than this is left out."""
_SHORT_LEADER = 5.0
_ARROW_HEAD = 4.2
_FAINT_OPACITY = 0.35
_MOST_TICKS = 12


class Axis(NamedTuple):
    """What an axis is called, and its ticks: value and text."""

    name: str
    ticks: list[tuple[float, str]]


def axes_of(figure: RooflineFigure) -> tuple[Axis, Axis]:
    """Return the horizontal and the vertical axis of a figure."""
    one_level = len(figure.levels) == 1
    traffic = f"of {LEVEL_NAMES[figure.levels[0]]} traffic" if one_level else "at each level"
    intensities = _ticks(figure.intensity_range, range(-4, 6), lambda value: significant(value, 1))
    rates = _ticks(figure.flop_per_s_range, range(18), lambda value: format_si(value, "", 1))
    return (
        Axis(f"arithmetic intensity, {figure.unit} per byte {traffic}", intensities),
        Axis(f"performance, {figure.unit}/s", rates),
    )


def _ticks(bounds: Extent, plain: range, written: Callable[[float], str]) -> list[tuple[float, str]]:
    """Return the powers of ten within bounds, written with an exponent unless it is in `plain`.

    Of many powers every second is returned, or every third and so on.
    """
    first, last = math.ceil(math.log10(bounds[0]) - 1e-9), math.floor(math.log10(bounds[1]) + 1e-9)
    step = 1 + (last - first) // _MOST_TICKS
    ticks = []
    for power in range(first + -first % step, last + 1, step):
        text = f"1e{power}"
        ticks.append((float(text), written(float(text)) if power in plain else text))
    return ticks


def part_of(bounds: Extent, value: float) -> float:
    """Return how far along an axis a value is: 0 to 1."""
    return math.log(value / bounds[0]) / math.log(bounds[1] / bounds[0])


def axes_shapes(figure: RooflineFigure, size: Extent, colours: Mapping[str, str]) -> list[Shape]:
    """Return what lies on axes of a size, from back to front. Room is found for ceilings' labels first."""
    axes = _Axes(figure, size, colours)
    back: list[Shape] = [axes.roof(roof) for roof in sorted(figure.roofs, key=lambda roof: roof.style == "dashed")]
    back += axes.chains()
    ridges = [ridge for ridge in figure.ridges if ridge.origin == figure.ceiling]
    back += [axes.ridge(ridge) for ridge in ridges]
    points = sorted(figure.points, key=lambda point: (not point.faint, point.side == "new", -point_area(figure, point)))
    front: list[Shape] = [axes.point(point) for point in points]
    for arrow in figure.arrows:
        front += axes.arrow(arrow)
    for roof, text in roof_labels(figure):
        axes.label_roof(roof, text)
    for ridge in ridges:
        axes.label_ridge(ridge)
    for point, text in point_labels(figure, axes.at):
        axes.label_point(point, text)
    return [*back, *axes.leaders, *front, *axes.labels]


class _Axes:
    """The axes, what is known to lie on them, and the labels that have found a place."""

    def __init__(self, figure: RooflineFigure, size: Extent, colours: Mapping[str, str]) -> None:
        self._figure, self._size, self._colours = figure, size, colours
        self._occupied = Occupied(size)
        self.leaders: list[Line] = []
        self.labels: list[Label] = []

    def at(self, item: FigurePoint | Ridge) -> Extent:
        """Return the place of a point or a ridge."""
        return self._place((item.intensity, item.flop_per_s))

    def _place(self, value: Extent) -> Extent:
        x = self._size[0] * part_of(self._figure.intensity_range, value[0])
        return x, self._size[1] * part_of(self._figure.flop_per_s_range, value[1])

    def _roof_ends(self, roof: RoofLine) -> Segment:
        return self._place(roof.line[0]), self._place(roof.line[1])

    def roof(self, roof: RoofLine) -> Line:
        """Return the line of a ceiling."""
        ends, colour = self._roof_ends(roof), self._colours[f"line-{roof_colour(roof)}"]
        self._occupied.add_line(ends)
        return Line(ends, colour, *STROKES[roof.style], id=f"roof-{roof.id}", title=f"{roof.name} {roof.value_text}")

    def chains(self) -> Iterator[Line]:
        """Yield a line through the points of each kernel that has several; those of a comparison have arrows."""
        chains: dict[int, list[Extent]] = {}
        for point in self._figure.points:
            if not point.side:
                chains.setdefault(point.kernel, []).append(self.at(point))
        for places in chains.values():
            if len(places) > 1:
                places.sort()
                for ends in pairwise(places):
                    self._occupied.add_line(ends)
                yield Line(tuple(places), self._colours["muted"], 0.8, (1.0, 2.0))

    def ridge(self, ridge: Ridge) -> Mark:
        """Return the mark of a ridge."""
        muted, background = self._colours["muted"], self._colours["background"]
        return Mark(self.at(ridge), "o", 4.0, muted, background, id=f"ridge-{ridge.path}-{ridge.level}")

    def point(self, point: FigurePoint) -> Mark:
        """Return the mark of a point: an overview's has the colour of its path, a single kernel's that of its level."""
        colour = self._colours[f"line-{family(point.path) if self._figure.sized else point.level}"]
        opacity = _FAINT_OPACITY if point.faint else 1.0
        x, y = self.at(point)
        reach = self._reach(point)
        self._occupied.add_mark(Box(x - reach, y - reach, x + reach, y + reach))
        return Mark(
            place=(x, y),
            shape=MARKERS[family(point.path)],
            width=point_width(self._figure, point),
            edge=colour,
            fill=self._colours["background"] if point.hollow else colour,
            edge_width=1.6 if point.hollow else 1.1,
            edge_opacity=opacity,
            fill_opacity=opacity if point.hollow else opacity * FILL_OPACITY,
            id=_point_id(point),
            title=point_title(point),
            kernel=point.kernel,
        )

    def _reach(self, point: FigurePoint) -> float:
        return point_reach(self._figure, point) + 1

    def arrow(self, arrow: Arrow) -> Iterator[Shape]:
        """Yield an arrow from edge to edge of its points; where they touch, from middle to middle, over them."""
        (x0, y0), (x1, y1) = (self.at(point) for point in arrow)
        length = math.dist((x0, y0), (x1, y1))
        start, end = self._reach(arrow.base), length - self._reach(arrow.new)
        if end - start < _ARROW_HEAD:
            start, end = 0.0, length
        if end - start < _ARROW_HEAD:
            return
        across, up = (x1 - x0) / length, (y1 - y0) / length
        root, neck, middle = (
            (x0 + across * way, y0 + up * way) for way in (start, end - _ARROW_HEAD, end - _ARROW_HEAD / 2)
        )
        self._occupied.add_line((root, neck))
        ink = self._colours["ink"]
        yield Line((root, neck), ink, 1.2)
        yield Mark(middle, "^", _ARROW_HEAD, ink, ink, rotation=math.degrees(math.atan2(up, across)) - 90)

    def label_roof(self, roof: RoofLine, text: str) -> None:
        """Write a ceiling's name and value: along it where there is room, else beside it with a leader."""
        colour, gid = self._colours[f"text-{roof_colour(roof)}"], f"label-{roof.id}"
        line, width = self._roof_ends(roof), text_width(text, SMALL)
        near_start, above = roof.kind == "bandwidth", roof.origin != "at-clock"
        along = place_along(self._occupied, line, width, SMALL, near_start=near_start, above=above)
        cost = along.cost if along is not None else math.inf
        # Beside its line a ceiling's text is given the height of a point's.
        beside = place_beside(self._occupied, line, width, TEXT) if cost > _CROWDED else None
        if beside is not None and beside.cost < cost:
            self._write(beside.box, text, SMALL, colour, gid)
            self._lead(beside)
        elif along is not None:
            self._occupied.add_text(along.boxes)
            self._label(along.start, text, SMALL, colour, gid, rotation=math.degrees(along.angle))

    def label_ridge(self, ridge: Ridge) -> None:
        """Write the intensity of a ridge below it if it hides little."""
        text = f"ridge {significant(ridge.intensity)}"
        width, (x, y) = text_width(text, SMALL), self.at(ridge)
        for left in (x + 4.0, x - 8.0 - width):
            box = Box(left=left, bottom=y - SMALL - 5.0, right=left + width + 4.0, top=y - 4.0)
            if self._occupied.costs(numpy.array(box)) < _RIDGE_COST:
                self._write(box, text, SMALL, self._colours["muted"])
                return

    def label_point(self, point: FigurePoint, text: str) -> None:
        """Write a point's label near it."""
        reach = point_reach(self._figure, point)
        place = place_around(self._occupied, self.at(point), reach, text_width(text, TEXT), TEXT)
        if place is not None:
            colour = self._colours["ink" if self._figure.sized else f"text-{point.level}"]
            self._write(place.box, text, TEXT, colour, f"label-{_point_id(point)}")
            self._lead(place)

    def _write(self, box: Box, text: str, size: float, colour: str, gid: str = "") -> None:
        """Write a text into the box that was found for it."""
        self._occupied.add_text([box])
        self._label((box.left + 1, box.bottom + 2.2), text, size, colour, gid)

    def _lead(self, place: Beside) -> None:
        """Lead a line from what a label names to the label if that is not beside it."""
        ends = (place.root, place.tip)
        if math.dist(*ends) > _SHORT_LEADER:
            self._occupied.add_line(ends)
            self.leaders.append(Line(ends, self._colours["muted"], 0.7))

    def _label(self, place: Extent, text: str, size: float, colour: str, gid: str, rotation: float = 0.0) -> None:
        self.labels.append(
            Label(place, text, size, colour, rotation=rotation, ground=self._colours["background"], id=gid)
        )


def _point_id(point: FigurePoint) -> str:
    side = f"-{point.side}" if point.side else ""
    return f"point-{point.kernel}-{point.path}-{point.level}{side}"
