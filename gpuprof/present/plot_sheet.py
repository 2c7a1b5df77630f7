"""What stands around the axes of a plot, in points from their lower left corner: heading, key, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuprof.model.path_names import path_name
from gpuprof.present.plot_marks import FILL_OPACITY, MARKERS, STROKES, family
from gpuprof.present.plot_shapes import Label, Line, Mark, Shape
from gpuprof.present.plot_text import SMALL, TITLE, fitted, text_width, wrapped
from gpuprof.present.roofline_figure import Extent, RooflineFigure
from gpuprof.text import printable

_AXES = (542.0, 358.0)
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 16.0, 14.0, 58.0
_HEADING, _ROW = 36.0, 12.0
_START, _END = _RIGHT - _LEFT, _AXES[0]
"""Between which places rows of text are written."""
_SAMPLE_WIDTH, _SAMPLE_GAP, _ENTRY_GAP = 17.6, 4.0, 11.2
"""Length of a line in the key, with a mark in the middle of as much room; and the gaps behind it and its text."""
_BOLD = 1.15
"""About how much wider bold letters are."""


class Sheet(NamedTuple):
    """Sizes of a sheet and of the axes on it, where their lower left corner is from its upper one, what is around."""

    size: Extent
    axes_size: Extent
    corner: Extent
    around: list[Shape]


def sheet_of(figure: RooflineFigure, colours: Mapping[str, str], *, heading: bool) -> Sheet:
    """Return the sheet of a figure: the key below the axes, and where wanted a heading above and notes below."""
    around: list[Shape] = list(_heading(figure, colours)) if heading else []
    y, x = 12.0 - _BOTTOM, _START
    for sample, meaning in _key(figure, colours):
        text_at = _SAMPLE_WIDTH + _SAMPLE_GAP if sample is not None else 0.0
        text = fitted(meaning, _END - _START - text_at, SMALL)
        end = x + text_at + text_width(text, SMALL)
        if end > _END:
            x, y, end = _START, y - _ROW, end - x + _START
        if sample is not None:
            around.append(_moved(sample, x, y + 2.8))
        around.append(Label((x + text_at, y), text, SMALL, colours["muted"]))
        x = end + _ENTRY_GAP
    y -= 4.0
    for note in wrapped(figure.notes, _END - _START) if heading else []:
        y -= _ROW
        around.append(Label((_START, y), note, SMALL, colours["muted"]))
    top = _TOP + _HEADING if heading else _TOP
    size = (_LEFT + _AXES[0] + _RIGHT, top + _AXES[1] + 8.0 - y)
    return Sheet(size, _AXES, (_LEFT, top + _AXES[1]), around)


def _heading(figure: RooflineFigure, colours: Mapping[str, str]) -> Iterator[Label]:
    title = fitted(printable(figure.title), (_END - _START) / _BOLD, TITLE)
    subtitle = fitted(printable(figure.subtitle), _END - _START, SMALL + 0.5)
    yield Label((_START, _AXES[1] + 28), title, TITLE, colours["ink"], bold=True)
    yield Label((_START, _AXES[1] + 12), subtitle, SMALL + 0.5, colours["muted"])


def _key(figure: RooflineFigure, colours: Mapping[str, str]) -> Iterator[tuple[Line | Mark | None, str]]:
    """Yield samples at the origin and their meanings: of shapes, by the paths of points, and of lines, by origins."""
    for name in dict.fromkeys(family(point.path) for point in figure.points):
        colour = colours[f"line-{name}" if figure.sized else "muted"]
        paths = dict.fromkeys(point.path for point in figure.points if family(point.path) == name)
        mark = Mark((_SAMPLE_WIDTH / 2, 0), MARKERS[name], 6.0, colour, colour, fill_opacity=FILL_OPACITY)
        yield mark, ", ".join(path_name(path) for path in paths)
    for style, origin in dict.fromkeys((roof.style, roof.origin) for roof in figure.roofs):
        line = Line(((0, 0), (_SAMPLE_WIDTH, 0)), colours["muted"], *STROKES[style])
        yield line, "ceiling at clock" if origin == "at-clock" else f"{origin} ceiling"
    if figure.sized and any(point.share is not None for point in figure.points):
        yield None, "point area: share of the time"
    if any(point.hollow for point in figure.points):
        yield None, f"hollow: {_why_hollow(figure)}"
    if any(point.side == "new" for point in figure.points):
        yield None, "filled: new"


def _moved(sample: Line | Mark, x: float, y: float) -> Shape:
    if isinstance(sample, Line):
        return sample._replace(places=tuple((x + dx, y + dy) for dx, dy in sample.places))
    return sample._replace(place=(x + sample.place[0], y + sample.place[1]))


def _why_hollow(figure: RooflineFigure) -> str:
    if any(point.side for point in figure.points):
        return "base"
    estimated = any(point.estimated for point in figure.points)
    uncertified = any(point.uncertified for point in figure.points)
    return " or ".join(word for word, so in (("estimated", estimated), ("unchecked", uncertified)) if so)
