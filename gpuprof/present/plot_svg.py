"""Writes a RooflineFigure as SVG: ids of the figure's own, titles of points and ceilings, and no call for other files.

matplotlib could write it, but to import that takes longer than all that a page needs beside.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from gpuprof.present.plot_axes import axes_of, axes_shapes, part_of
from gpuprof.present.plot_shapes import Label, Line, Mark, Shape
from gpuprof.present.plot_sheet import sheet_of
from gpuprof.present.plot_text import SMALL, TEXT, text_width
from gpuprof.present.roofline_figure import Extent, RooflineFigure
from gpuprof.text import printable
from gpuprof.views.theme import ThemeName, theme_colours

_FONT = "font-family:'DejaVu Sans',Verdana,'Segoe UI',sans-serif"
_TICK_GAP, _BELOW_TICK, _NAME_GAP, _X_NAME_BELOW = 5.0, 11.1, 6.2, 23.8
_ABOVE_BASELINE, _BELOW_BASELINE, _AROUND_TEXT = 0.76, 0.24, 0.6
"""How far a line of text reaches, in its size; and the ground beyond it in points."""
_CORNERS: Mapping[str, Sequence[Extent]] = {
    "s": ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)),
    "^": ((0.0, 0.5), (0.5, -0.5), (-0.5, -0.5)),
    "v": ((0.0, -0.5), (0.5, 0.5), (-0.5, 0.5)),
    "D": ((0.0, -math.sqrt(0.5)), (math.sqrt(0.5), 0.0), (0.0, math.sqrt(0.5)), (-math.sqrt(0.5), 0.0)),
}
"""Corners of marks of width 1 around their middle, as matplotlib has them; a circle has none."""


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
    around = [*_frame(figure, sheet.axes_size, colours), *sheet.around]
    inside = axes_shapes(figure, sheet.axes_size, colours)
    links = {point.kernel: links[point.kernel] for point in figure.points if links and point.kernel in links}
    width, height = map(_number, sheet.size)
    declaration = "" if theme == "page" else '<?xml version="1.0" encoding="utf-8"?>\n'
    size = "" if theme == "page" else f' width="{width}pt" height="{height}pt"'
    parts = (
        f'{declaration}<svg xmlns="http://www.w3.org/2000/svg"{size} viewBox="0 0 {width} {height}" '
        f'role="{"group" if links else "img"}" aria-labelledby="{prefix}title {prefix}desc" '
        f'style="stroke-linejoin:round;{_FONT}">',
        f'<title id="{prefix}title">{_escaped(figure.title)}</title>',
        f'<desc id="{prefix}desc">{_escaped(figure.subtitle)}</desc>',
        f'<rect width="{width}" height="{height}" style="fill:{colours["background"]}"/>',
        f'<clipPath id="{prefix}clip">{_rect((0.0, 0.0), sheet.axes_size)}</clipPath>',
        f'<g transform="translate({_number(sheet.corner[0])} {_number(sheet.corner[1])})">',
        *(_element(shape, prefix, links) for shape in around),
        f'<g clip-path="url(#{prefix}clip)">',
        *(_element(shape, prefix, links) for shape in inside),
        "</g></g></svg>\n",
    )
    return "\n".join(parts)


def _frame(figure: RooflineFigure, size: Extent, colours: Mapping[str, str]) -> Iterator[Shape]:
    """Yield the grid, the ticks, and the axes with their names."""
    (width, height), (x_axis, y_axis) = size, axes_of(figure)
    grid, muted = colours["grid"], colours["muted"]
    for value, text in x_axis.ticks:
        x = width * part_of(figure.intensity_range, value)
        yield Line(((x, 0.0), (x, height)), grid, 0.7)
        yield Label((x, -_BELOW_TICK), text, SMALL, muted, anchor="middle")
    for value, text in y_axis.ticks:
        y = height * part_of(figure.flop_per_s_range, value)
        yield Line(((0.0, y), (width, y)), grid, 0.7)
        yield Label((-_TICK_GAP, y - 3.0), text, SMALL, muted, anchor="end")
    yield Line(((0.0, height), (0.0, 0.0), (width, 0.0)), muted, 0.8)
    yield Label((width / 2, -_X_NAME_BELOW), x_axis.name, TEXT, muted, anchor="middle")
    widest = max((text_width(text, SMALL) for _, text in y_axis.ticks), default=0.0)
    place = (-_TICK_GAP - widest - _NAME_GAP, height / 2)
    yield Label(place, y_axis.name, TEXT, muted, anchor="middle", rotation=90.0)


def _element(shape: Shape, prefix: str, links: Mapping[int, str]) -> str:
    if isinstance(shape, Label):
        element = _text(shape)
    elif isinstance(shape, Line):
        element = _path(shape)
    else:
        element = _mark(shape)
    if not shape.id:
        return element
    if not isinstance(shape, Label) and shape.title:
        element = f"<title>{_escaped(shape.title)}</title>{element}"
    if isinstance(shape, Mark) and shape.kernel is not None and shape.kernel in links:
        # A keyboard can reach it, and a reader can name it.
        element = f'<a href="{escape(links[shape.kernel])}" data-kernel="{shape.kernel}">{element}</a>'
    return f'<g id="{prefix}{_identifier(shape.id)}">{element}</g>'


def _text(label: Label) -> str:
    style = f"font-size:{_number(label.size)}px;fill:{label.colour}"
    style += ";font-weight:700" if label.bold else ""
    style += f";text-anchor:{label.anchor}" if label.anchor != "start" else ""
    moved = _moved(label.place, label.rotation)
    text = f'<text{moved} style="{style}">{_escaped(label.text)}</text>'
    if not label.ground:
        return text
    corner = (-_AROUND_TEXT, -_BELOW_BASELINE * label.size - _AROUND_TEXT)
    size = (text_width(label.text, label.size) + 2 * _AROUND_TEXT, label.size + 2 * _AROUND_TEXT)
    return _rect(corner, size, f'{moved} style="fill:{label.ground};opacity:.75"') + text


def _path(line: Line) -> str:
    style = f"fill:none;stroke:{line.colour};stroke-width:{_number(line.width)}"
    if line.dashes:
        style += f";stroke-dasharray:{','.join(_number(length * line.width) for length in line.dashes)}"
    return f'<path d="{_way(line.places)}" style="{style}"/>'


def _mark(mark: Mark) -> str:
    style = f"fill:{mark.fill};stroke:{mark.edge};stroke-width:{_number(mark.edge_width)}"
    style += f";fill-opacity:{_number(mark.fill_opacity)}" if mark.fill_opacity < 1.0 else ""
    style += f";stroke-opacity:{_number(mark.edge_opacity)}" if mark.edge_opacity < 1.0 else ""
    common = f'class="mark"{_moved(mark.place, mark.rotation)} style="{style}"'
    if mark.shape == "o":
        return f'<circle {common} r="{_number(mark.width / 2)}"/>'
    return f'<path {common} d="{_way([(x * mark.width, y * mark.width) for x, y in _CORNERS[mark.shape]])}z"/>'


def _rect(corner: Extent, size: Extent, attributes: str = "") -> str:
    x, y, width, height = map(_number, (corner[0], -corner[1] - size[1], *size))
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}"{attributes}/>'


def _moved(place: Extent, rotation: float) -> str:
    turn = f" rotate({_number(-rotation)})" if rotation else ""
    return f' transform="translate({_place(place)}){turn}"'


def _way(places: Sequence[Extent]) -> str:
    return "M" + "L".join(map(_place, places))


def _place(place: Extent) -> str:
    """Write a place; in SVG, y grows downwards."""
    return f"{_number(place[0])} {_number(0.0 - place[1])}"


def _number(value: float) -> str:
    """Write a length with two digits at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _escaped(text: str) -> str:
    return escape(printable(text))


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)
