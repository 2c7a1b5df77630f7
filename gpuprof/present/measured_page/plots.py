"""A curve figure as geometry: where lines, markers, ticks and labels stand. The template only writes it down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuprof.present.measured_page.scales import AxisScale, Tick, axis_unit, height_scale, ticks, width_scale
from gpuprof.present.measured_words import amount

_WIDTH, _HEIGHT = 600.0, 290.0
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
_REACH = 3.2

Coordinates = tuple[float, float]


class PlottedSeries(NamedTuple):
    """One line of points, and the law that it should follow, if any: as points too, and in words.

    Points that were fitted stand alone, `joined` False, so that the law is seen between them.
    """

    label: str
    points: tuple[Coordinates, ...]
    law: tuple[Coordinates, ...] = ()
    law_text: str = ""
    joined: bool = True


class Found(NamedTuple):
    """A value that was found on the curve, in the unit of an axis: a capacity, a knee, a peak."""

    value: float
    text: str


class Marker(NamedTuple):
    """A point as drawn, with the text that shows when a pointer rests on it."""

    path: str
    title: str


class DrawnSeries(NamedTuple):
    """A series as drawn. `style` is its number, which gives its colour."""

    style: int
    label: str
    law_text: str
    path: str
    law: str
    sample: str
    markers: tuple[Marker, ...]


class PlacedLabel(NamedTuple):
    """A text at a place, and where the line that it belongs to is."""

    at: str
    x: str
    y: str
    text: str


class Plot(NamedTuple):
    """A figure: its frame, ticks (place and text), lines, what was found, and the same in words."""

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
    columns: tuple[PlacedLabel, ...]
    levels: tuple[PlacedLabel, ...]
    description: str


class _Frame(NamedTuple):
    """The inside of a figure: its axes and its upper edge."""

    x: AxisScale
    y: AxisScale
    top: float
    height: float

    def place(self, point: Coordinates) -> Coordinates:
        """Return where a point lies, in the units of the drawing."""
        across = _LEFT + self.x.part(point[0]) * (_WIDTH - _LEFT - _RIGHT)
        return across, self.top + (1 - self.y.part(point[1])) * self.height


def plot(
    series: Sequence[PlottedSeries], units: tuple[str, str], columns: Sequence[Found] = (), levels: Sequence[Found] = ()
) -> Plot:
    """Draw series that share their units (of x and y). `columns` are found along x, `levels` along y.

    Raises ValueError without any point.
    """
    points = [point for one in series for point in (*one.points, *one.law)]
    if not points:
        raise ValueError("a figure needs points")
    x = width_scale([point[0] for point in points] + [one.value for one in columns if one.value > 0], units[0])
    y = height_scale([point[1] for point in points] + [one.value for one in levels if one.value > 0], x)
    labels, rows = _columns(columns, x)
    frame = _Frame(x, y, _TOP + max(0, rows - 1) * _MARK_ROW, _HEIGHT - _TOP - _BOTTOM)
    crowded = len(series) > _MOST_SERIES
    titled = sum(len(one.points) for one in series) <= _TITLED_POINTS
    return Plot(
        width=_number(_WIDTH),
        height=_number(frame.top + frame.height + _BOTTOM + (_X_UNIT if axis_unit(units[0]) else 0)),
        left=_number(_LEFT),
        right=_number(_WIDTH - _RIGHT),
        top=_number(frame.top),
        bottom=_number(frame.top + frame.height),
        x_ticks=tuple(_ticks_across(frame, ticks(x, units[0]))),
        y_ticks=tuple(_ticks_up(frame, ticks(y, units[1]))),
        x_unit=axis_unit(units[0]),
        y_unit=axis_unit(units[1]),
        lines=() if crowded else tuple(_line(i, one, frame, units, titled=titled) for i, one in enumerate(series)),
        cloud="".join(_dot(frame.place(point)) for one in series for point in one.points) if crowded else "",
        columns=tuple(labels),
        levels=tuple(_levels(levels, frame)),
        description=_description(series, units, [*columns, *levels]),
    )


def _ticks_across(frame: _Frame, found: Sequence[Tick]) -> Iterator[tuple[str, str]]:
    for tick in found:
        yield _number(frame.place((tick.value, frame.y.low))[0]), tick.text


def _ticks_up(frame: _Frame, found: Sequence[Tick]) -> Iterator[tuple[str, str]]:
    for tick in found:
        yield _number(frame.place((frame.x.low, tick.value))[1]), tick.text


def _columns(found: Sequence[Found], x: AxisScale) -> tuple[list[PlacedLabel], int]:
    """Return what was found along x, each label in the first row above the frame where it fits, and the rows."""
    ends: list[float] = []
    labels = []
    for one in sorted(found):
        at = _LEFT + x.part(one.value) * (_WIDTH - _LEFT - _RIGHT)
        wide = len(one.text) * _CHARACTER
        start = min(max(_LEFT, at - wide / 2), _WIDTH - wide)
        row = next((index for index, end in enumerate(ends) if end < start), len(ends))
        ends[row : row + 1] = [start + wide + _CHARACTER]
        labels.append(PlacedLabel(_number(at), _number(start), _number(_LABELS + row * _MARK_ROW), one.text))
    return labels, len(ends)


def _levels(found: Sequence[Found], frame: _Frame) -> Iterator[PlacedLabel]:
    for one in found:
        at = frame.place((frame.x.high, one.value))[1]
        yield PlacedLabel(_number(at), _number(_LEFT + 6), _number(at - 5), one.text)


def _line(number: int, series: PlottedSeries, frame: _Frame, units: tuple[str, str], *, titled: bool) -> DrawnSeries:
    places = [frame.place(point) for point in series.points]
    markers = [
        Marker(_shape(number, place), _point_title(series.label, point, units) if titled else "")
        for place, point in zip(places, series.points, strict=True)
    ]
    whole = tuple(markers) if titled else (Marker("".join(marker.path for marker in markers), series.label),)
    law = _path([frame.place(point) for point in series.law])
    return DrawnSeries(
        number,
        series.label,
        series.law_text,
        _path(places) if series.joined else "",
        law,
        _shape(number, (7.0, 7.0)),
        whole,
    )


def _point_title(label: str, point: Coordinates, units: tuple[str, str]) -> str:
    return f"{label + ': ' if label else ''}{amount(point[1], units[1])} at {amount(point[0], units[0])}"


def _path(places: Sequence[Coordinates]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in places) if places else ""


def _shape(number: int, place: Coordinates) -> str:
    """Return a circle, square, triangle or diamond around a place, so that colour is not all that tells lines apart."""
    x, y, r = *place, _REACH
    shapes = (
        _circle(x, y, r),
        f"M{_number(x - r)} {_number(y - r)}h{2 * r}v{2 * r}h{-2 * r}z",
        f"M{_number(x)} {_number(y - 1.2 * r)}l{1.2 * r:.2f} {2.1 * r:.2f}h{-2.4 * r:.2f}z",
        f"M{_number(x)} {_number(y - 1.35 * r)}l{1.35 * r:.2f} {1.35 * r:.2f}l{-1.35 * r:.2f} {1.35 * r:.2f}"
        f"l{-1.35 * r:.2f} {-1.35 * r:.2f}z",
    )
    return shapes[number % len(shapes)]


def _dot(place: Coordinates) -> str:
    return _circle(*place, 1.4)


def _circle(x: float, y: float, r: float) -> str:
    return f"M{_number(x - r)} {_number(y)}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"


def _description(series: Sequence[PlottedSeries], units: tuple[str, str], found: Sequence[Found]) -> str:
    """Say what the figure shows, for those who cannot see it."""
    told = [_ends(one, units) for one in series[:_MOST_SERIES] if one.points]
    if len(series) > _MOST_SERIES:
        told.append(f"and {len(series) - _MOST_SERIES} more lines")
    if found:
        told.append(f"found: {', '.join(one.text for one in found)}")
    return "; ".join(told)


def _ends(series: PlottedSeries, units: tuple[str, str]) -> str:
    first, last = series.points[0], series.points[-1]
    label = f"{series.label}: " if series.label else ""
    return f"{label}{_point_title('', first, units)}, {_point_title('', last, units)}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
