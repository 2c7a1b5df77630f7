"""Writes a RooflineFigure as SVG: ids of the figure's own, titles of points and ceilings, and no call for other files.

matplotlib could write it, but to import that takes longer than all that a page needs beside.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from gpuprof.model.path_names import path_name
from gpuprof.present.label_placement import Segment
from gpuprof.present.plot_axes import draw_axes
from gpuprof.present.plot_canvas import Canvas, Mark, Stroke, axis_names, number_on_x, number_on_y
from gpuprof.present.plot_marks import FAINT_OPACITY, point_id, roof_id
from gpuprof.present.plot_sheet import SAMPLE_WIDTH, Sheet, SheetText, sheet_of
from gpuprof.present.plot_text import SMALL, TEXT, text_width
from gpuprof.present.plot_theme import ThemeName, theme_colours
from gpuprof.present.roofline_figure import Extent, FigurePoint, RooflineFigure
from gpuprof.present.session_text import LEVEL_NAMES, intensity_text, rate_text
from gpuprof.present.text import cut_middle, printable
from gpuprof.units import format_percent

_TITLE_LENGTH = 100
_FONT = "font-family:'DejaVu Sans',Verdana,'Segoe UI',sans-serif"
_TICK_GAP, _BELOW_TICK, _NAME_GAP, _X_NAME_BELOW = 5.0, 11.1, 6.2, 23.8
_MOST_TICKS = 20
_ABOVE_BASELINE, _BELOW_BASELINE, _AROUND_TEXT = 0.76, 0.24, 0.6
"""How far a line of text reaches, in its size; and the ground beyond it in points."""
_HEAD_LENGTH, _HEAD_WIDTH = 4.2, 4.0


def render_svg(
    figure: RooflineFigure,
    theme: ThemeName = "light",
    *,
    heading: bool = True,
    links: Mapping[int, str] | None = None,
) -> str:
    """Return the figure as SVG text. `page` gives CSS variables instead of colours, see `page_colours`.

    `links` gives points a link, by the number of their kernel.
    """
    colours, prefix = theme_colours(theme), f"{_identifier(figure.id)}-"
    sheet = sheet_of(figure, colours, heading=heading)
    canvas = _SvgCanvas(figure, sheet, colours, prefix, links or {})
    draw_axes(canvas)
    around = [_sheet_text(sheet, text) for text in sheet.texts]
    width, height = sheet.size
    size = "" if theme == "page" else f' width="{_number(width)}pt" height="{_number(height)}pt"'
    parts = (
        "" if theme == "page" else '<?xml version="1.0" encoding="utf-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg"{size} viewBox="0 0 {_number(width)} {_number(height)}" '
        f'role="{"group" if canvas.is_linked else "img"}" aria-labelledby="{prefix}title {prefix}desc" '
        f'style="stroke-linejoin:round;{_FONT}">',
        f'<title id="{prefix}title">{_escaped(figure.title)}</title>'
        f'<desc id="{prefix}desc">{_escaped(figure.subtitle)}</desc>',
        f'<rect width="{_number(width)}" height="{_number(height)}" style="fill:{colours["background"]}"/>',
        *canvas.elements(),
        *around,
        *(_sample(sheet, x, y, sample) for x, y, sample in sheet.samples),
        "</svg>\n",
    )
    return "\n".join(filter(None, parts))


class _SvgCanvas(Canvas):
    """The axes on the sheet. What is drawn is written when all of it is known, by layers."""

    def __init__(
        self, figure: RooflineFigure, sheet: Sheet, colours: Mapping[str, str], prefix: str, links: Mapping[int, str]
    ) -> None:
        super().__init__(figure, sheet.axes_size, colours)
        self._left, self._bottom = sheet.axes_at[0], sheet.size[1] - sheet.axes_at[1]
        self._prefix = prefix
        self._titles = {roof_id(roof): f"{roof.name} {roof.value_text}" for roof in figure.roofs}
        self._titles |= {point_id(point): _point_title(point) for point in figure.points}
        self._links = {
            point_id(point): (point.kernel, links[point.kernel]) for point in figure.points if point.kernel in links
        }
        self._drawn: list[tuple[float, str]] = []

    @property
    def is_linked(self) -> bool:
        """Tell whether a point leads anywhere."""
        return bool(self._links)

    def elements(self) -> Iterator[str]:
        """Yield what was drawn, from back to front."""
        (width, height), clip = self.size, f"{self._prefix}clip"
        rect = _rect(self._left, self._bottom - height, width, height)
        yield f'<clipPath id="{clip}">{rect}</clipPath>'
        for _, element in sorted(self._drawn, key=lambda drawn: drawn[0]):
            yield element

    def frame(self) -> None:
        """Draw the axes with their names, ticks and grid."""
        figure, (width, height), muted = self.figure, self.size, self.colours["muted"]
        grid, spine = Stroke(self.colours["grid"], 0.7), Stroke(muted, 0.8)
        name_of_x, name_of_y = axis_names(figure)
        widest = 0.0
        for value in _decades(figure.intensity_range):
            x, text = self.at(value, figure.flop_per_s_range[0])[0], number_on_x(value)
            self._add(0.0, _path(self._on_sheet([(x, 0.0), (x, height)]), grid))
            self._add(0.5, _text(self._placed((x, -_BELOW_TICK)), text, SMALL, muted, anchor="middle"))
        for value in _decades(figure.flop_per_s_range):
            y, text = self.at(figure.intensity_range[0], value)[1], number_on_y(value)
            self._add(0.0, _path(self._on_sheet([(0.0, y), (width, y)]), grid))
            self._add(0.5, _text(self._placed((-_TICK_GAP, y - 3.0)), text, SMALL, muted, anchor="end"))
            widest = max(widest, text_width(text, SMALL))
        self._add(2.5, _path(self._on_sheet([(0.0, height), (0.0, 0.0), (width, 0.0)]), spine))
        self._add(0.5, _text(self._placed((width / 2, -_X_NAME_BELOW)), name_of_x, TEXT, muted, anchor="middle"))
        place = self._placed((-_TICK_GAP - widest - _NAME_GAP, height / 2))
        self._add(0.5, _text(place, name_of_y, TEXT, muted, anchor="middle", rotation=90.0))

    def line(self, values: Sequence[Extent], stroke: Stroke, layer: float, gid: str = "") -> None:
        """Draw a line through values."""
        self._add(layer, _path(self._on_sheet([self.at(*value) for value in values]), stroke), gid, clipped=True)

    def mark(self, value: Extent, mark: Mark, layer: float, gid: str) -> None:
        """Draw a mark at a value."""
        self._add(layer, _mark(self._on_sheet([self.at(*value)])[0], mark), gid, clipped=True)

    def arrow(self, start: Extent, end: Extent, gaps: Sequence[float]) -> None:
        """Draw an arrow between values, so many points short of each."""
        (x0, y0), (x1, y1) = self._on_sheet([self.at(*start), self.at(*end)])
        length = math.dist((x0, y0), (x1, y1))
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        tip = (x1 - dx * gaps[1], y1 - dy * gaps[1])
        neck = (tip[0] - dx * _HEAD_LENGTH, tip[1] - dy * _HEAD_LENGTH)
        aside = (-dy * _HEAD_WIDTH / 2, dx * _HEAD_WIDTH / 2)
        stroke = Stroke(self.colours["ink"], 1.2)
        shaft = _path([(x0 + dx * gaps[0], y0 + dy * gaps[0]), neck], stroke)
        corners = [tip, (neck[0] + aside[0], neck[1] + aside[1]), (neck[0] - aside[0], neck[1] - aside[1])]
        style = f"fill:{stroke.colour};stroke:{stroke.colour};stroke-width:{stroke.width}"
        self._add(4.5, f'{shaft}<path d="{_way(corners)}z" style="{style}"/>', clipped=True)

    def segment(self, ends: Segment) -> None:
        """Draw the line of a leader, whose ends are in points."""
        self._add(3.8, _path(self._on_sheet(ends), Stroke(self.colours["muted"], 0.7)))

    def text(self, place: Extent, text: str, size: float, colour: str, gid: str = "", rotation: float = 0.0) -> None:
        """Write a text that begins at a place in points, turned by degrees, on a faint ground."""
        ground = _rect(
            -_AROUND_TEXT,
            -_ABOVE_BASELINE * size - _AROUND_TEXT,
            text_width(text, size) + 2 * _AROUND_TEXT,
            (_ABOVE_BASELINE + _BELOW_BASELINE) * size + 2 * _AROUND_TEXT,
            f"fill:{self.colours['background']};opacity:.75",
        )
        moved = _moved(self._placed(place), rotation)
        self._add(6.0, f"<g{moved}>{ground}{_text(None, text, size, colour)}</g>", gid)

    def _add(self, layer: float, element: str, gid: str = "", *, clipped: bool = False) -> None:
        title, link = self._titles.get(gid), self._links.get(gid)
        if title is not None:
            element = f"<title>{_escaped(title)}</title>{element}"
        if link is not None:
            # A keyboard can reach it, and a reader can name it.
            element = f'<a href="{escape(link[1])}" data-kernel="{link[0]}">{element}</a>'
        attributes = f' id="{self._prefix}{_identifier(gid)}"' if gid else ""
        attributes += f' clip-path="url(#{self._prefix}clip)"' if clipped else ""
        self._drawn.append((layer, f"<g{attributes}>{element}</g>" if attributes else element))

    def _placed(self, place: Extent) -> Extent:
        return self._left + place[0], self._bottom - place[1]

    def _on_sheet(self, places: Sequence[Extent]) -> list[Extent]:
        return [self._placed(place) for place in places]


def _decades(bounds: Extent) -> Iterator[float]:
    """Yield the powers of ten within bounds; of very many every second, or every third and so on."""
    first, last = math.ceil(math.log10(bounds[0]) - 1e-9), math.floor(math.log10(bounds[1]) + 1e-9)
    step = 1 + (last - first) // _MOST_TICKS
    yield from (10.0**power for power in range(first, last + 1, step))


def _sheet_text(sheet: Sheet, text: SheetText) -> str:
    anchor = "end" if text.to_right_edge else "start"
    place = (text.x, sheet.size[1] - text.y)
    return _text(place, text.text, text.size, text.colour, anchor=anchor, bold=text.bold) if text.text else ""


def _sample(sheet: Sheet, x: float, y: float, sample: Mark | Stroke) -> str:
    height = sheet.size[1] - y
    if isinstance(sample, Stroke):
        return _path([(x, height), (x + SAMPLE_WIDTH, height)], sample)
    return _mark((x + SAMPLE_WIDTH / 2, height), sample)


def _text(
    place: Extent | None,
    text: str,
    size: float,
    colour: str,
    *,
    anchor: str = "start",
    bold: bool = False,
    rotation: float = 0.0,
) -> str:
    """Return a text at a place on the sheet; without one, where its group is."""
    style = f"font-size:{_number(size)}px;{'font-weight:700;' if bold else ''}"
    style += f"text-anchor:{anchor};" if anchor != "start" else ""
    moved = _moved(place, rotation) if place is not None else ""
    return f'<text{moved} style="{style}fill:{colour}">{_escaped(text)}</text>'


def _moved(place: Extent, rotation: float) -> str:
    turn = f" rotate({_number(-rotation)})" if rotation else ""
    return f' transform="translate({_number(place[0])} {_number(place[1])}){turn}"'


def _path(places: Sequence[Extent], stroke: Stroke) -> str:
    style = f"fill:none;stroke:{stroke.colour};stroke-width:{_number(stroke.width)}"
    if stroke.dashes:
        style += f";stroke-dasharray:{','.join(_number(length * stroke.width) for length in stroke.dashes)}"
    return f'<path d="{_way(places)}" style="{style}"/>'


def _way(places: Sequence[Extent]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in places)


def _mark(place: Extent, mark: Mark) -> str:
    """Return a mark in the proportions that matplotlib gives it."""
    corners = [(place[0] + x * mark.width, place[1] + y * mark.width) for x, y in _CORNERS.get(mark.shape, ())]
    style = f"fill:{mark.fill};stroke:{mark.edge};stroke-width:{_number(mark.edge_width)}"
    style += f";fill-opacity:{mark.fill_opacity}" if mark.fill_opacity < 1.0 else ""
    style += f";opacity:{FAINT_OPACITY}" if mark.faint else ""
    if corners:
        return f'<path class="mark" d="{_way(corners)}z" style="{style}"/>'
    x, y = place
    return f'<circle class="mark" cx="{_number(x)}" cy="{_number(y)}" r="{_number(mark.width / 2)}" style="{style}"/>'


_HALF_DIAGONAL = math.sqrt(0.5)
_CORNERS: Mapping[str, Sequence[Extent]] = {
    "s": ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)),
    "^": ((0.0, -0.5), (0.5, 0.5), (-0.5, 0.5)),
    "v": ((0.0, 0.5), (0.5, -0.5), (-0.5, -0.5)),
    "D": ((0.0, -_HALF_DIAGONAL), (_HALF_DIAGONAL, 0.0), (0.0, _HALF_DIAGONAL), (-_HALF_DIAGONAL, 0.0)),
}
"""Corners of marks of width 1 around their middle, downwards; a circle has none."""


def _rect(x: float, y: float, width: float, height: float, style: str = "") -> str:
    size = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    return f'<rect {size} style="{style}"/>' if style else f"<rect {size}/>"


def _number(value: float) -> str:
    """Write a length with two digits at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _escaped(text: str) -> str:
    return escape(printable(text))


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def _point_title(point: FigurePoint) -> str:
    share = f", {format_percent(point.share)} of the time" if point.share is not None else ""
    source = f" in {point.source}" if point.source else ""
    return (
        f"{cut_middle(point.label, _TITLE_LENGTH)} #{point.kernel}{source}: {path_name(point.path)} "
        f"{rate_text(point.path, point.flop_per_s)} at {intensity_text(point.path, point.intensity)} of "
        f"{LEVEL_NAMES[point.level]}, {format_percent(point.fraction_of_roof)} of the roofline "
        f"{point.ceiling.replace('-', ' ')}, {point.bound}-bound{share}"
    )
