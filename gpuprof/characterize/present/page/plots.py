"""A curve figure as geometry: where lines, markers, ticks and labels stand. The template only writes it down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuprof.characterize.present.page.scales import AxisScale, axis_unit, height_scale, ticks, width_scale
from gpuprof.characterize.present.words import amount

_WIDTH, _INSIDE = 600.0, 236.0
"""How wide a figure is, and how high its inside."""
_LEFT, _RIGHT, _BOTTOM, _TOP = 70.0, 18.0, 30.0, 24.0
_LABELS = 13.0
"""Where the first row of labels above the frame stands."""
_MARK_ROW = 17.0
_X_UNIT = 17.0
_CHARACTER = 7.0
"""About how wide a character of a label is."""
_TITLED_POINTS = 300
"""More points than these get no title of their own."""
_MOST_SERIES = 7
"""More series than these cannot be told apart by colour and shape; they are drawn as a cloud."""
_SHAPES = (
    "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z",
    "m-3.2 -3.2h6.4v6.4h-6.4z",
    "m0 -3.84l3.84 6.72h-7.68z",
    "m0 -4.32l4.32 4.32l-4.32 4.32l-4.32 -4.32z",
)
"""A circle, square, triangle and diamond around a place, so that colour is not all that tells series apart."""
_DOT = "m-1.4 0a1.4 1.4 0 1 0 2.8 0a1.4 1.4 0 1 0 -2.8 0z"

Coordinates = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PlottedSeries:
    """One line of points, and the law that it should follow, if any: as points too, and in words.

    Points that were fitted stand alone, `joined` False, so that the law is seen between them.
    """

    label: str
    points: tuple[Coordinates, ...]
    law: tuple[Coordinates, ...] = ()
    law_text: str = ""
    joined: bool = True


class ReferenceLine(NamedTuple):
    """A line across the figure at a value of an axis that was found on the curve: a capacity, a knee, a peak."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class DrawnSeries:
    """A series as drawn. `style` is its number, which gives its colour.

    A marker is a path and the text that shows when a pointer rests on it.
    """

    style: int
    label: str
    law_text: str
    path: str
    law: str
    sample: str
    markers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DrawnReferenceLine:
    """Where a reference line is, along its axis, and where its text stands."""

    at: str
    x: str
    y: str
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure: its frame, ticks (place and text), series, reference lines, and the same in words."""

    width: str
    height: str
    left: str
    right: str
    top: str
    bottom: str
    x_ticks: tuple[tuple[str, str], ...]
    y_ticks: tuple[tuple[str, str], ...]
    x_unit: str
    y_unit: str
    lines: tuple[DrawnSeries, ...]
    cloud: str
    columns: tuple[DrawnReferenceLine, ...]
    levels: tuple[DrawnReferenceLine, ...]
    description: str


class _Frame(NamedTuple):
    """The inside of a figure: its axes and its upper edge."""

    x: AxisScale
    y: AxisScale
    top: float

    def place(self, point: Coordinates) -> Coordinates:
        """Return where a point lies, in the units of the drawing."""
        return _across(self.x, point[0]), self.up(point[1])

    def up(self, value: float) -> float:
        """Return how far below the drawing's upper edge a value of the vertical axis lies."""
        return self.top + (1 - self.y.part(value)) * _INSIDE


def _across(x: AxisScale, value: float) -> float:
    return _LEFT + x.part(value) * (_WIDTH - _LEFT - _RIGHT)


def plot(
    series: Sequence[PlottedSeries],
    units: tuple[str, str],
    columns: Sequence[ReferenceLine] = (),
    levels: Sequence[ReferenceLine] = (),
) -> Plot:
    """Draw series that share their units (of x and y). `columns` stand at values of x, `levels` lie at values of y.

    Raises ValueError without any point.
    """
    points = [point for line in series for point in (*line.points, *line.law)]
    if not points:
        raise ValueError("a figure needs points")
    x = width_scale([point[0] for point in points] + [line.value for line in columns if line.value > 0], units[0])
    y = height_scale([point[1] for point in points] + [line.value for line in levels if line.value > 0], x)
    drawn_columns, rows = _columns(columns, x)
    frame = _Frame(x, y, _TOP + max(0, rows - 1) * _MARK_ROW)
    crowded = len(series) > _MOST_SERIES
    titled = sum(len(line.points) for line in series) <= _TITLED_POINTS
    return Plot(
        width=_number(_WIDTH),
        height=_number(frame.top + _INSIDE + _BOTTOM + (_X_UNIT if axis_unit(units[0]) else 0)),
        left=_number(_LEFT),
        right=_number(_WIDTH - _RIGHT),
        top=_number(frame.top),
        bottom=_number(frame.top + _INSIDE),
        x_ticks=tuple((_number(_across(x, tick.value)), tick.text) for tick in ticks(x, units[0])),
        y_ticks=tuple((_number(frame.up(tick.value)), tick.text) for tick in ticks(y, units[1])),
        x_unit=axis_unit(units[0]),
        y_unit=axis_unit(units[1]),
        lines=() if crowded else tuple(_line(i, line, frame, units, titled=titled) for i, line in enumerate(series)),
        cloud="".join(mark for line in series for mark in _marks(line, frame, _DOT)) if crowded else "",
        columns=tuple(drawn_columns),
        levels=tuple(_levels(levels, frame)),
        description=_description(series, units, [*columns, *levels]),
    )


def _columns(lines: Sequence[ReferenceLine], x: AxisScale) -> tuple[list[DrawnReferenceLine], int]:
    """Return lines that stand, the text of each in the first row above the frame where it fits, and how many rows."""
    ends: list[float] = []
    drawn = []
    for value, text in sorted(lines):
        at = _across(x, value)
        wide = len(text) * _CHARACTER
        start = min(max(_LEFT, at - wide / 2), _WIDTH - wide)
        row = next((index for index, end in enumerate(ends) if end < start), len(ends))
        ends[row : row + 1] = [start + wide + _CHARACTER]
        drawn.append(_reference(at, (start, _LABELS + row * _MARK_ROW), text))
    return drawn, len(ends)


def _levels(lines: Sequence[ReferenceLine], frame: _Frame) -> Iterator[DrawnReferenceLine]:
    for value, text in lines:
        at = frame.up(value)
        yield _reference(at, (_LEFT + 6, at - 5), text)


def _reference(at: float, place: Coordinates, text: str) -> DrawnReferenceLine:
    return DrawnReferenceLine(at=_number(at), x=_number(place[0]), y=_number(place[1]), text=text)


def _line(number: int, series: PlottedSeries, frame: _Frame, units: tuple[str, str], *, titled: bool) -> DrawnSeries:
    shape = _SHAPES[number % len(_SHAPES)]
    marks = _marks(series, frame, shape)
    titles = [_point_title(series.label, point, units) for point in series.points] if titled else [series.label]
    return DrawnSeries(
        style=number,
        label=series.label,
        law_text=series.law_text,
        path=_path([frame.place(point) for point in series.points]) if series.joined else "",
        law=_path([frame.place(point) for point in series.law]),
        sample=f"M7 7{shape}",
        markers=tuple(zip(marks if titled else ["".join(marks)], titles, strict=True)),
    )


def _marks(series: PlottedSeries, frame: _Frame, shape: str) -> list[str]:
    return [f"{_path([frame.place(point)])}{shape}" for point in series.points]


def _point_title(label: str, point: Coordinates, units: tuple[str, str]) -> str:
    return f"{label + ': ' if label else ''}{amount(point[1], units[1])} at {amount(point[0], units[0])}"


def _path(places: Sequence[Coordinates]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in places) if places else ""


def _description(series: Sequence[PlottedSeries], units: tuple[str, str], lines: Sequence[ReferenceLine]) -> str:
    """Say what the figure shows, for those who cannot see it."""
    clauses = [_ends(line, units) for line in series[:_MOST_SERIES] if line.points]
    if len(series) > _MOST_SERIES:
        clauses.append(f"and {len(series) - _MOST_SERIES} more lines")
    if lines:
        clauses.append(f"found: {', '.join(line.text for line in lines)}")
    return "; ".join(clauses)


def _ends(series: PlottedSeries, units: tuple[str, str]) -> str:
    first, last = series.points[0], series.points[-1]
    label = f"{series.label}: " if series.label else ""
    return f"{label}{_point_title('', first, units)}, {_point_title('', last, units)}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
