"""Places labels inside a frame so that they hide little: every candidate has a cost, the cheapest wins.

Lengths are points (1/72 inch) from the frame's lower left corner. Same input, same places: ties go to the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

Floats = NDArray[numpy.float64]
Position = tuple[float, float]
Segment = tuple[Position, Position]

_STEP = 3.0
"""How far apart the samples of a line are."""
_LINE, _MARK, _TEXT = 150, 4_000, 100_000
"""What it costs to hide a sample of a line, a whole mark, and a cell of a text (never done), in hundredths."""
_MOST_HIDDEN = 60.0
"""A label around a point does not hide more than this: a mark and a half."""
_MARGIN = 3.0
_STEPS_TO_LABEL = (1, 3, 7, 11, 17, 25, 34, 45)
_DIRECTIONS = (0, 180, 35, -35, 145, -145, 90, -90, 65, -65, 115, -115, 15, -15, 165, -165)
_ROOTS = (0.85, 0.65, 0.45, 0.25)
_PLACES_ALONG = 49


class Box(NamedTuple):
    """An upright rectangle."""

    left: float
    bottom: float
    right: float
    top: float


class Along(NamedTuple):
    """A place for a text that runs along a line: its start, its angle in radians, and the boxes that cover it."""

    cost: float
    start: Position
    angle: float
    boxes: Floats


class Beside(NamedTuple):
    """A place for a text beside what it names: the ends of its leader, `tip` at the text, and its box."""

    cost: float
    root: Position
    tip: Position
    box: Box


class Occupied:
    """What has been drawn inside the frame so far, and what a further text there would hide.

    It is kept for cells of one square point, in whole numbers, whose sums are exact.
    """

    def __init__(self, size: Position) -> None:
        self._size = numpy.array(size)
        columns, rows = math.ceil(size[0]) + 1, math.ceil(size[1]) + 1
        self._cells = numpy.zeros((columns, rows), dtype=numpy.int32)
        self._columns = numpy.zeros_like(self._cells)
        self._sums = numpy.zeros((columns + 1, rows + 1), dtype=numpy.int32, order="F")
        self._is_summed = True

    def add_text(self, boxes: Floats | Sequence[Box]) -> None:
        """Remember a text."""
        self._add(numpy.asarray(boxes), _TEXT)

    def add_mark(self, box: Box) -> None:
        """Remember a point."""
        self._add(numpy.array([box]), round(_MARK / max(1.0, (box.right - box.left) * (box.top - box.bottom))))

    def add_line(self, line: Segment) -> None:
        """Remember a line."""
        samples = numpy.linspace(*line, max(1, math.ceil(math.dist(*line) / _STEP)) + 1)
        columns, rows = samples.clip(0, self._size).astype(numpy.intp).T
        self._cells[columns, rows] += _LINE
        self._is_summed = False

    def costs(self, boxes: Floats) -> Floats:
        """Return what a text costs in each of these boxes; infinite outside the frame or over another text."""
        inside = (boxes[..., :2] >= _MARGIN) & (boxes[..., 2:] <= self._size - _MARGIN)
        return numpy.where(inside.all(axis=-1), self.hidden(boxes), math.inf)

    def hidden(self, boxes: Floats) -> Floats:
        """Return the cost of what each of these boxes covers; infinite over a text."""
        if not self._is_summed:
            # Neighbours in memory are added up four times as fast as others.
            sums = self._sums[1:, 1:]
            sums[...] = self._cells.cumsum(axis=1, dtype=numpy.int32, out=self._columns)
            sums.cumsum(axis=0, dtype=numpy.int32, out=sums)
            self._is_summed = True
        left, bottom, right, top = numpy.moveaxis(self._windows(boxes), -1, 0)
        sums = self._sums
        covered = sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom]
        return numpy.where(covered < _TEXT, covered / 100, math.inf)

    def _add(self, boxes: Floats, density: int) -> None:
        for left, bottom, right, top in self._windows(boxes).tolist():
            self._cells[left:right, bottom:top] += density
        self._is_summed = False

    def _windows(self, boxes: Floats) -> NDArray[numpy.intp]:
        """Return the first cells that boxes touch, and those behind their last."""
        return (boxes + 0.5).clip(0, self._cells.shape * 2).astype(numpy.intp)


def _squares(middles: Floats, half: float) -> Floats:
    """Return boxes around places."""
    return numpy.concatenate((middles - half, middles + half), axis=-1)


def place_along(
    occupied: Occupied, line: Segment, width: float, size: float, *, near_start: bool, above: bool
) -> Along | None:
    """Return the cheapest place for a text along a line, or nothing.

    It is rather near the line's start or its end, and rather above the line or below it.
    """
    length = math.dist(*line)
    if length <= 0:
        return None
    start, end = numpy.array(line)
    along = (end - start) / length
    across = numpy.array((-along[1], along[0]))
    parts = numpy.linspace(0, 1, _PLACES_ALONG)[:, None]
    offsets = numpy.maximum(0, 4 + (length - width - 8) * parts)
    sides = across * [[3.5], [-size - 1.5]]
    starts = ((start + along * offsets)[:, None] + sides).reshape(-1, 2)
    boxes = _boxes_along(starts[:, None], along, across, width, size)
    preferred = 3 * (parts if near_start else 1 - parts) + ((0, 1.2) if above else (1.2, 0))
    costs = occupied.costs(boxes).sum(axis=-1) + preferred.reshape(-1)
    best = int(costs.argmin())
    x, y = starts[best].tolist()
    place = Along(float(costs[best]), (x, y), math.atan2(along[1], along[0]), boxes[best])
    return place if place.cost < math.inf else None


def _boxes_along(starts: Floats, along: Floats, across: Floats, width: float, size: float) -> Floats:
    """Cover a text that runs at an angle with small upright boxes, from each place that it may begin at."""
    if along[1] == 0:
        return numpy.concatenate((starts - (1, 2), starts + numpy.array((width + 1, size - 1))), axis=-1)
    steps = numpy.linspace(0, width, math.ceil(width / size * 2) + 1)[:, None]
    return _squares(starts + along * steps + across * size * 0.35, size * 0.42)


def place_beside(occupied: Occupied, line: Segment, width: float, size: float) -> Beside | None:
    """Return the cheapest place for a text near a line, with a leader to it, or nothing."""
    (x0, y0), (x1, y1) = line
    roots = [(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part) for part in _ROOTS]
    places = [place for root in roots if (place := place_around(occupied, root, 0.0, width, size)) is not None]
    return min(places, key=lambda place: place.cost, default=None)


def place_around(occupied: Occupied, middle: Position, radius: float, width: float, size: float) -> Beside | None:
    """Return the cheapest place for a text around a point of that radius, or nothing.

    Candidates lie on rays; a leader covers its ray up to the label.
    """
    angles = numpy.radians(_DIRECTIONS)
    rays = numpy.stack((numpy.cos(angles), numpy.sin(angles)), axis=-1)
    steps = _STEP * numpy.arange(1, max(_STEPS_TO_LABEL) + 1)[:, None, None]
    on_rays = middle + rays * (radius + steps)
    chosen = numpy.array(_STEPS_TO_LABEL) - 1
    tips = on_rays[chosen]
    # A label above or below its point is in the middle of its tip, another one beside it.
    upright = numpy.abs(rays[:, 1:]) > 0.9
    extent = numpy.array((width + 2, size + 3))
    corners = tips - numpy.where(upright == (True, False), 0.5, rays < 0) * extent
    boxes = numpy.concatenate((corners, corners + extent), axis=-1)
    leaders = occupied.hidden(_squares(on_rays, 2)).cumsum(axis=0)[chosen] + 0.15 * (steps[chosen, 0] - _STEP)
    ranks = 0.02 * numpy.arange(leaders.size).reshape(leaders.shape)
    costs = occupied.costs(boxes)
    costs = numpy.where(costs < _MOST_HIDDEN, costs + leaders + ranks, math.inf)
    best = numpy.unravel_index(costs.argmin(), costs.shape)
    if costs[best] == math.inf:
        return None
    root = middle + rays[best[1]] * radius
    (x0, y0), (x1, y1) = root.tolist(), tips[best].tolist()
    return Beside(float(costs[best]), (x0, y0), (x1, y1), Box(*boxes[best].tolist()))
