"""Places labels inside a frame so that they hide little: every candidate has a cost, the cheapest wins.

Lengths are points (1/72 inch) from the frame's lower left corner. Same input, same places: ties go to the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]

Position = tuple[float, float]
Segment = tuple[Position, Position]

_GAPS = (3.0, 10.0, 20.0, 34.0, 52.0, 74.0, 100.0, 135.0)
_DIRECTIONS = (0, 180, 35, -35, 145, -145, 90, -90, 65, -65, 115, -115, 15, -15, 165, -165)
_ROOTS = (0.85, 0.65, 0.45, 0.25)
_STEPS = 48


class Box(NamedTuple):
    """An upright rectangle."""

    left: float
    bottom: float
    right: float
    top: float


class Along(Struct, frozen=True):
    """A place for a text that runs along a line: its start, its angle in radians, and the boxes that cover it."""

    cost: float
    start: Position
    angle: float
    boxes: list[Box]


class Beside(Struct, frozen=True):
    """A place for a text beside what it names: the ends of its leader, `tip` at the text, and its box."""

    cost: float
    root: Position
    tip: Position
    box: Box


class Occupied:
    """What has been drawn inside the frame so far, and what a further text there would cost."""

    def __init__(self, size: Position) -> None:
        self._frame = Box(left=3, bottom=3, right=size[0] - 3, top=size[1] - 3)
        self._texts = _Raster(size)
        self._ink = _Raster(size)

    def cost(self, boxes: Sequence[Box]) -> float:
        """Return the cost of a text that covers these boxes; infinite outside the frame or over another text."""
        import numpy

        return float(self.costs(numpy.array([boxes]))[0])

    def costs(self, boxes: Floats) -> Floats:
        """Return the cost of each of several places for a text: their axes are places, boxes and the sides of a box."""
        import numpy

        left, bottom, right, top = numpy.moveaxis(boxes, -1, 0)
        frame = self._frame
        inside = (left >= frame.left) & (bottom >= frame.bottom) & (right <= frame.right) & (top <= frame.top)
        return numpy.where(inside.all(axis=-1), self._covered(boxes), math.inf)

    def leader_cost(self, start: Position, end: Position) -> float:
        """Return the cost of a leader: its length and what it crosses; infinite through a text."""
        length = 0.15 * math.dist(start, end)
        return length + float(self._covered(_squares(_samples((start, end)), 2)))

    def _covered(self, boxes: Floats) -> Floats:
        """Return the ink in all boxes of each place; infinite if one of them covers a text."""
        import numpy

        is_free = (self._texts.totals(boxes) <= 0.5).all(axis=-1)
        return numpy.where(is_free, self._ink.totals(boxes).sum(axis=-1), math.inf)

    def add_text(self, boxes: Sequence[Box]) -> None:
        """Remember a text."""
        import numpy

        self._texts.add(numpy.array(boxes), 1.0)

    def add_mark(self, box: Box) -> None:
        """Remember a point: to hide it whole costs as much as to cross many lines."""
        import numpy

        self._ink.add(numpy.array([box]), 40 / max(1.0, (box.right - box.left) * (box.top - box.bottom)))

    def add_line(self, line: Segment) -> None:
        """Remember a line."""
        self._ink.add(_squares(_samples(line), 0.5), 1.5)


class _Raster:
    """A density over the frame in cells of one square point, and its sum over any box in constant time.

    The sums are those of a summed-area table. What was added since they were last asked for waits in cells of its own,
    so that a small text does not cost a pass over the frame.
    """

    def __init__(self, size: Position) -> None:
        import numpy

        self._size = (math.ceil(size[0]) + 1, math.ceil(size[1]) + 1)
        self._sums = numpy.zeros((self._size[0] + 1, self._size[1] + 1))
        self._added: list[tuple[NDArray[numpy.intp], float]] = []

    def add(self, boxes: Floats, density: float) -> None:
        """Add to every cell that a box touches."""
        self._added.append((self._windows(boxes), density))

    def totals(self, boxes: Floats) -> Floats:
        """Return for each box the sum over the cells that it touches."""
        import numpy

        if self._added:
            self._sum_up()
        left, bottom, right, top = numpy.moveaxis(self._windows(boxes), -1, 0)
        sums = self._sums
        totals: Floats = sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom]
        return totals

    def _sum_up(self) -> None:
        """Add to the sums what waits: within its own window cell by cell, beyond it as a whole."""
        import numpy

        windows = numpy.concatenate([windows for windows, _ in self._added])
        (left, bottom), (right, top) = windows[:, :2].min(axis=0), windows[:, 2:].max(axis=0)
        cells = numpy.zeros((right - left, top - bottom))
        for windows, density in self._added:
            for x0, y0, x1, y1 in (windows - (left, bottom, left, bottom)).tolist():
                cells[x0:x1, y0:y1] += density
        self._added.clear()
        if not cells.size:
            return
        own = cells.cumsum(axis=0).cumsum(axis=1)
        sums = self._sums[left + 1 :, bottom + 1 :]
        width, height = own.shape
        sums[:width, :height] += own
        sums[width:, :height] += own[-1]
        sums[:width, height:] += own[:, -1:]
        sums[width:, height:] += own[-1, -1]

    def _windows(self, boxes: Floats) -> NDArray[numpy.intp]:
        """Return the first cells that boxes touch, and those behind their last: none where a box lies outside."""
        import numpy

        columns, rows = self._size
        cells = numpy.clip(boxes + 0.5, 0, (columns, rows, columns, rows)).astype(numpy.intp)
        cells[..., 2:] = numpy.maximum(cells[..., :2], cells[..., 2:])
        return cells


def _samples(line: Segment, step: float = 3.0) -> Floats:
    import numpy

    count = max(1, math.ceil(math.dist(*line) / step))
    return numpy.linspace(*line, count + 1)


def _squares(middles: Floats, half: float) -> Floats:
    """Return boxes around places."""
    import numpy

    return numpy.concatenate((middles - half, middles + half), axis=-1)


def place_along(
    occupied: Occupied, line: Segment, width: float, size: float, *, near_start: bool, above: bool
) -> Along | None:
    """Return the cheapest place for a text along a line, or nothing.

    It is rather near the line's start or its end, and rather above the line or below it.
    """
    if math.dist(*line) <= 0:
        return None
    (x0, y0), (x1, y1) = line
    angle = math.atan2(y1 - y0, x1 - x0)
    starts, preferences = _places_along(line, width, size, near_start=near_start, above=above)
    boxes = _boxes_along(starts, angle, width, size)
    costs = occupied.costs(boxes) + preferences
    best = int(costs.argmin())
    if costs[best] == math.inf:
        return None
    x, y = starts[best].tolist()
    return Along(cost=float(costs[best]), start=(x, y), angle=angle, boxes=list(map(Box._make, boxes[best].tolist())))


def _places_along(line: Segment, width: float, size: float, *, near_start: bool, above: bool) -> tuple[Floats, Floats]:
    """Return places for a text along a line, and the cost of what is not preferred."""
    import numpy

    (start, end), length = numpy.array(line), math.dist(*line)
    along = (end - start) / length
    parts = numpy.arange(_STEPS + 1) / _STEPS
    offsets = 4 + (length - width - 8) * parts
    parts, offsets = parts[offsets >= 0], offsets[offsets >= 0]
    on_line = start + along * offsets[:, None]
    aside = 3 * (parts if near_start else 1 - parts)
    across = numpy.array((-along[1], along[0]))
    places = numpy.stack((on_line + across * 3.5, on_line - across * (size + 1.5)), axis=1)
    costs = numpy.stack((aside + (0.0 if above else 1.2), aside + (1.2 if above else 0.0)), axis=1)
    return places.reshape(-1, 2), costs.reshape(-1)


def _boxes_along(starts: Floats, angle: float, width: float, size: float) -> Floats:
    """Cover a text that runs at an angle with small upright boxes, from each place that it may begin at."""
    import numpy

    if abs(angle) < 1e-6:
        around: Floats = numpy.tile(starts, 2)[:, None] + numpy.array((-1, -2, width + 1, size - 1))
        return around
    turn = numpy.array((math.cos(angle), math.sin(angle)))
    across = numpy.array((-turn[1], turn[0]))
    count = max(1, math.ceil(width / (size * 0.5)))
    middles = turn * numpy.linspace(0, width, count + 1)[:, None] + across * size * 0.35
    return _squares(starts[:, None] + middles, size * 0.42)


def place_beside(occupied: Occupied, line: Segment, width: float, size: float) -> Beside | None:
    """Return the cheapest place for a text near a line, with a leader to it, or nothing."""
    (x0, y0), (x1, y1) = line
    roots = [(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part) for part in _ROOTS]
    places = [place for root in roots if (place := place_around(occupied, root, 0.0, width, size)) is not None]
    return min(places, key=lambda place: place.cost, default=None)


def place_around(occupied: Occupied, middle: Position, radius: float, width: float, size: float) -> Beside | None:
    """Return the cheapest place for a text around a point of that radius, or nothing."""
    import numpy

    places = list(_boxes_around(middle, radius, width + 2, size + 3))
    costs = occupied.costs(numpy.array([[box] for box, _ in places])) + 0.02 * numpy.arange(len(places))
    best: Beside | None = None
    # A leader only adds to the cost: behind the first that costs more without it, none is cheaper.
    for rank in costs.argsort(kind="stable").tolist():
        cost, (box, tip) = float(costs[rank]), places[rank]
        if cost >= (best.cost if best is not None else math.inf):
            break
        cost += occupied.leader_cost(_towards(middle, tip, radius + 3), tip)
        if cost < (best.cost if best is not None else math.inf):
            best = Beside(cost=cost, root=_towards(middle, tip, radius), tip=tip, box=box)
    return best


def _boxes_around(middle: Position, radius: float, width: float, height: float) -> Iterator[tuple[Box, Position]]:
    """Yield boxes around a point, near ones first, with the end of the leader at the nearest side."""
    for gap in _GAPS:
        reach = radius + gap
        for degrees in _DIRECTIONS:
            turn = math.radians(degrees)
            tip = (middle[0] + reach * math.cos(turn), middle[1] + reach * math.sin(turn))
            if abs(degrees) in (65, 90, 115):
                left = tip[0] - width / 2
                bottom = tip[1] if degrees > 0 else tip[1] - height
            else:
                left = tip[0] if abs(degrees) < 90 else tip[0] - width
                bottom = tip[1] - height / 2
            yield Box(left=left, bottom=bottom, right=left + width, top=bottom + height), tip


def _towards(start: Position, end: Position, distance: float) -> Position:
    """Return the place so far from the start on the way to the end, or the end."""
    whole = math.dist(start, end)
    part = min(1.0, distance / whole) if whole > 0 else 0.0
    return (start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part)
