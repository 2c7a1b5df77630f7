"""Places labels inside a frame so that they hide little: every candidate has a cost, the cheapest wins.

Lengths are points (1/72 inch) from the frame's lower left corner. Same input, same places: ties go to the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

Position = tuple[float, float]
Segment = tuple[Position, Position]

_GAPS = (3.0, 10.0, 20.0, 34.0, 52.0, 74.0, 100.0, 135.0)
_DIRECTIONS = (0, 180, 35, -35, 145, -145, 90, -90, 65, -65, 115, -115, 15, -15, 165, -165)
_ROOTS = (0.85, 0.65, 0.45, 0.25)
_STEPS = 48
_ROUNDING = 1e-6
"""Sums over boxes are differences of large sums."""


class Box(NamedTuple):
    """An upright rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def inside(self, other: Box) -> bool:
        """Tell whether the whole box lies in another."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.bottom >= other.bottom
            and self.top <= other.top
        )


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

    def cost(self, boxes: Sequence[Box], most: float = math.inf) -> float:
        """Return the cost of a text that covers these boxes; infinite outside the frame or over another text.

        Above `most` the cost is no longer counted: infinite too.
        """
        if not all(box.inside(self._frame) for box in boxes):
            return math.inf
        return self._covered(boxes, most)

    def leader_cost(self, start: Position, end: Position, most: float = math.inf) -> float:
        """Return the cost of a leader: its length and what it crosses; infinite through a text, or above `most`."""
        length = 0.15 * math.dist(start, end)
        windows = [Box(left=x - 2, bottom=y - 2, right=x + 2, top=y + 2) for x, y in _samples((start, end))]
        return length + self._covered(windows, most - length)

    def _covered(self, boxes: Sequence[Box], most: float) -> float:
        """Return the ink in all boxes; infinite if one of them covers a text, or the ink is clearly more than most."""
        ink = 0.0
        for box in boxes:
            ink += self._ink.total(box)
            if ink > most + _ROUNDING:
                return math.inf
        return ink if not any(self._texts.total(box) > 0.5 for box in boxes) else math.inf

    def add_text(self, boxes: Iterable[Box]) -> None:
        """Remember a text."""
        for box in boxes:
            self._texts.add(box, 1.0)

    def add_mark(self, box: Box) -> None:
        """Remember a point: to hide it whole costs as much as to cross many lines."""
        self._ink.add(box, 40 / max(1.0, (box.right - box.left) * (box.top - box.bottom)))

    def add_line(self, line: Segment) -> None:
        """Remember a line."""
        for x, y in _samples(line):
            self._ink.add(Box(left=x - 0.5, bottom=y - 0.5, right=x + 0.5, top=y + 0.5), 1.5)


class _Raster:
    """A density over the frame in cells of one square point, and its sum over any box in constant time."""

    def __init__(self, size: Position) -> None:
        import numpy

        self._cells = numpy.zeros((math.ceil(size[0]) + 1, math.ceil(size[1]) + 1))
        self._sums: NDArray[numpy.float64] | None = None

    def add(self, box: Box, density: float) -> None:
        """Add to every cell that a box touches."""
        left, right, bottom, top = self._window(box)
        self._cells[left:right, bottom:top] += density
        self._sums = None

    def total(self, box: Box) -> float:
        """Return the sum over the cells that a box touches, from a summed-area table."""
        import numpy

        if self._sums is None:
            self._sums = numpy.pad(self._cells.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
        left, right, bottom, top = self._window(box)
        at = self._sums.item
        return at(right, top) - at(left, top) - at(right, bottom) + at(left, bottom)

    def _window(self, box: Box) -> tuple[int, int, int, int]:
        columns, rows = self._cells.shape
        left, right = _span(box.left, box.right, columns)
        bottom, top = _span(box.bottom, box.top, rows)
        return left, right, bottom, top


def _span(low: float, high: float, cells: int) -> tuple[int, int]:
    """Return the first cell that a side touches and the one behind the last: none where it lies outside."""
    first = min(max(0, int(low + 0.5)), cells)
    return first, max(first, min(cells, int(high + 0.5)))


def _samples(line: Segment, step: float = 3.0) -> list[Position]:
    (x0, y0), (x1, y1) = line
    count = max(1, math.ceil(math.dist(*line) / step))
    return [(x0 + (x1 - x0) * index / count, y0 + (y1 - y0) * index / count) for index in range(count + 1)]


def place_along(
    occupied: Occupied, line: Segment, width: float, size: float, *, near_start: bool, above: bool
) -> Along | None:
    """Return the cheapest place for a text along a line, or nothing.

    It is rather near the line's start or its end, and rather above the line or below it.
    """
    (x0, y0), (x1, y1) = line
    angle = math.atan2(y1 - y0, x1 - x0)
    best: Along | None = None
    for start, preference in _places_along(line, width, size, near_start=near_start, above=above):
        boxes = _boxes_along(start, angle, width, size)
        most = best.cost if best is not None else math.inf
        cost = occupied.cost(boxes, most - preference) + preference
        if cost < most:
            best = Along(cost=cost, start=start, angle=angle, boxes=boxes)
    return best


def _places_along(
    line: Segment, width: float, size: float, *, near_start: bool, above: bool
) -> Iterator[tuple[Position, float]]:
    """Yield places for a text along a line, with the cost of what is not preferred."""
    start, end = line
    length = math.dist(start, end)
    if length <= 0:
        return
    along = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)
    for index in range(_STEPS + 1):
        offset = 4 + (length - width - 8) * index / _STEPS
        if offset < 0:
            continue
        aside = index / _STEPS if near_start else 1 - index / _STEPS
        for is_above, shift in ((True, 3.5), (False, -(size + 1.5))):
            place = (
                start[0] + along[0] * offset - along[1] * shift,
                start[1] + along[1] * offset + along[0] * shift,
            )
            yield place, 3 * aside + (1.2 if is_above != above else 0.0)


def _boxes_along(place: Position, angle: float, width: float, size: float) -> list[Box]:
    """Cover a text that runs at an angle with small upright boxes."""
    if abs(angle) < 1e-6:
        return [Box(left=place[0] - 1, bottom=place[1] - 2, right=place[0] + width + 1, top=place[1] + size - 1)]
    boxes = []
    step = size * 0.5
    count = max(1, math.ceil(width / step))
    for index in range(count + 1):
        offset = width * index / count
        x = place[0] + math.cos(angle) * offset - math.sin(angle) * size * 0.35
        y = place[1] + math.sin(angle) * offset + math.cos(angle) * size * 0.35
        boxes.append(Box(left=x - size * 0.42, bottom=y - size * 0.42, right=x + size * 0.42, top=y + size * 0.42))
    return boxes


def place_beside(occupied: Occupied, line: Segment, width: float, size: float) -> Beside | None:
    """Return the cheapest place for a text near a line, with a leader to it, or nothing."""
    (x0, y0), (x1, y1) = line
    roots = [(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part) for part in _ROOTS]
    places = [place for root in roots if (place := place_around(occupied, root, 0.0, width, size)) is not None]
    return min(places, key=lambda place: place.cost, default=None)


def place_around(occupied: Occupied, middle: Position, radius: float, width: float, size: float) -> Beside | None:
    """Return the cheapest place for a text around a point of that radius, or nothing."""
    best: Beside | None = None
    for rank, (box, tip) in enumerate(_boxes_around(middle, radius, width + 2, size + 3)):
        most = best.cost if best is not None else math.inf
        cost = occupied.cost([box], most)
        if cost == math.inf:
            continue
        cost += 0.02 * rank + occupied.leader_cost(_towards(middle, tip, radius + 3), tip, most - cost)
        if cost < most:
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
