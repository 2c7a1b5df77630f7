"""What stands around the axes of a plot, in points from the sheet's lower left corner: heading, key, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuprof.model.path_names import path_name
from gpuprof.present.plot_canvas import Mark, Stroke
from gpuprof.present.plot_marks import FILL_OPACITY, MARKERS, STROKES, family
from gpuprof.present.plot_text import SMALL, TITLE, fitted, text_width, wrapped
from gpuprof.present.roofline_figure import Extent, RooflineFigure
from gpuprof.present.text import printable

_WIDTH, _HEIGHT = 620.0, 430.0
_LEFT, _RIGHT, _BOTTOM, _TOP = 62.0, 16.0, 36.0, 14.0
_HEADING, _KEY, _NOTE_LINE = 36.0, 22.0, 12.0
SAMPLE_WIDTH = 17.6
"""Length of a stroke in the key; a mark is in the middle of as much room."""
_SAMPLE_GAP, _ENTRY_GAP = 4.0, 11.2


class SheetText(NamedTuple):
    """A text and where it begins on its baseline, or where it ends."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    bold: bool = False
    to_right_edge: bool = False


class KeySample(NamedTuple):
    """A mark or a stroke of the key, and where its room begins at the height of its middle."""

    x: float
    y: float
    sample: Mark | Stroke


class Sheet(NamedTuple):
    """Sizes of a sheet and of the axes on it, their lower left corner, and what is written around them."""

    size: Extent
    axes_at: Extent
    axes_size: Extent
    texts: tuple[SheetText, ...]
    samples: tuple[KeySample, ...]


def sheet_of(figure: RooflineFigure, colours: Mapping[str, str], *, heading: bool) -> Sheet:
    """Return the sheet of a figure: the key below the axes, and where wanted a heading above and notes below."""
    notes = wrapped(figure.notes, _WIDTH - 2 * _RIGHT) if heading else []
    above, below = _HEADING if heading else 0.0, _NOTE_LINE * len(notes)
    height, bottom = _HEIGHT + above + below, _BOTTOM + _KEY + below
    texts = list(_heading(figure, height, colours)) if heading else []
    for index, line in enumerate(reversed(notes)):
        texts.append(SheetText(_RIGHT, 8 + _NOTE_LINE * index, line, SMALL, colours["muted"]))
    samples = []
    x, key = _RIGHT, below + _KEY - 12
    for sample, meaning in _key(figure, colours):
        samples.append(KeySample(x, key + 4.7, sample))
        x += SAMPLE_WIDTH + _SAMPLE_GAP
        texts.append(SheetText(x, key + 1.9, meaning, SMALL, colours["muted"]))
        x += text_width(meaning, SMALL) + _ENTRY_GAP
    texts.append(SheetText(_WIDTH - _RIGHT, key + 1.5, _meanings(figure), SMALL, colours["muted"], to_right_edge=True))
    axes_size = (_WIDTH - _LEFT - _RIGHT, height - _TOP - above - bottom)
    return Sheet((_WIDTH, height), (_LEFT, bottom), axes_size, texts=tuple(texts), samples=tuple(samples))


def _heading(figure: RooflineFigure, height: float, colours: Mapping[str, str]) -> Iterator[SheetText]:
    title, subtitle = (
        fitted(printable(text), _WIDTH - 2 * _RIGHT, size)
        for text, size in ((figure.title, TITLE), (figure.subtitle, SMALL + 0.5))
    )
    yield SheetText(_RIGHT, height - 22, title, TITLE, colours["ink"], bold=True)
    yield SheetText(_RIGHT, height - 38, subtitle, SMALL + 0.5, colours["muted"])


def _key(figure: RooflineFigure, colours: Mapping[str, str]) -> Iterator[tuple[Mark | Stroke, str]]:
    """Yield what shapes mean, by the paths of points, then what strokes mean, by the origins of ceilings."""
    for name in dict.fromkeys(family(point.path) for point in figure.points):
        colour = colours[f"line-{name}" if figure.sized else "muted"]
        paths = dict.fromkeys(point.path for point in figure.points if family(point.path) == name)
        mark = Mark(MARKERS[name], width=6.0, edge=colour, fill=colour, fill_opacity=FILL_OPACITY)
        yield mark, ", ".join(path_name(path) for path in paths)
    for style, origin in dict.fromkeys((roof.style, roof.origin) for roof in figure.roofs):
        stroke = Stroke(colours["muted"], *STROKES[style])
        yield stroke, "ceiling at clock" if origin == "at-clock" else f"{origin} ceiling"


def _meanings(figure: RooflineFigure) -> str:
    """Return what areas and fillings mean; empty where they mean nothing."""
    has_shares = any(point.share is not None for point in figure.points)
    meanings = ["point area: share of the time"] if figure.sized and has_shares else []
    meanings += [f"hollow: {_why_hollow(figure)}"] if any(point.hollow for point in figure.points) else []
    meanings += ["filled: new"] if any(point.side == "new" for point in figure.points) else []
    return ", ".join(meanings)


def _why_hollow(figure: RooflineFigure) -> str:
    if any(point.side for point in figure.points):
        return "base"
    estimated = any(point.estimated for point in figure.points)
    uncertified = any(point.uncertified for point in figure.points)
    return " or ".join(word for word, so in (("estimated", estimated), ("unchecked", uncertified)) if so)
