"""Draws a RooflineFigure with matplotlib as SVG or PNG: the sheet with heading, notes and key, in stable bytes.

Lengths are points (1/72 inch).
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from gpuprof.model.path_names import path_name
from gpuprof.present.plot_axes import draw_axes
from gpuprof.present.plot_marks import MARKERS, STROKES, family
from gpuprof.present.plot_text import SMALL, TITLE, fitted, ignore_missing_glyphs, wrapped
from gpuprof.present.plot_theme import ThemeName, contrast_ratio, page_colours, theme_colours
from gpuprof.present.roofline_figure import RooflineFigure
from gpuprof.present.svg import finished_svg
from gpuprof.present.text import printable
from gpuprof.working_folder import import_outside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["ThemeName", "contrast_ratio", "draw", "page_colours", "render_pdf", "render_png", "render_svg"]

_WIDTH, _HEIGHT = 620.0, 430.0
_LEFT, _RIGHT, _BOTTOM, _TOP = 62.0, 16.0, 36.0, 14.0
_HEADING, _KEY, _NOTE_LINE = 36.0, 22.0, 12.0
_PNG_DPI = 200


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
    out = io.BytesIO()
    with _own_style(figure):
        sheet = _sheet(figure, theme, heading=heading)
        sheet.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, facecolor=sheet.get_facecolor())
    return finished_svg(out.getvalue().decode(), figure, theme, links)


def render_png(figure: RooflineFigure, theme: ThemeName = "light") -> bytes:
    """Return the figure as a PNG of about 1720 pixels width."""
    out = io.BytesIO()
    with _own_style(figure):
        sheet = _sheet(figure, "light" if theme == "page" else theme, heading=True)
        sheet.savefig(out, format="png", dpi=_PNG_DPI, facecolor=sheet.get_facecolor(), metadata={"Software": None})
    return out.getvalue()


def render_pdf(figure: RooflineFigure, theme: ThemeName = "light") -> bytes:
    """Return the figure as a PDF with its fonts as TrueType, and no date, so that equal figures are equal bytes."""
    out = io.BytesIO()
    nothing = {"CreationDate": None, "Creator": None, "Producer": None}
    with _own_style(figure):
        sheet = _sheet(figure, "light" if theme == "page" else theme, heading=True)
        sheet.savefig(out, format="pdf", facecolor=sheet.get_facecolor(), metadata=nothing)
    return out.getvalue()


def draw(figure: RooflineFigure, ax: Axes | None = None) -> Axes:
    """Draw into `ax`, or into a new figure of its own, and return the axes, so that notebooks can add to them."""
    if ax is None:
        return _sheet(figure, "light", heading=True).axes[0]
    draw_axes(figure, ax, theme_colours("light"))
    return ax


@contextmanager
def _own_style(figure: RooflineFigure) -> Iterator[None]:
    """Make the result independent of the user's matplotlibrc; kernel names may have glyphs that the font lacks."""
    import_outside("matplotlib")

    import matplotlib

    salt = f"gpuprof {figure.id}"
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"svg.hashsalt": salt, "svg.fonttype": "none", "pdf.fonttype": 42, "text.usetex": False}
        )
        ignore_missing_glyphs()
        yield


def _sheet(figure: RooflineFigure, theme: ThemeName, *, heading: bool) -> Figure:
    """Return the whole drawing: a heading and notes where wanted, the axes between them, the key below the axes.

    One without a heading is drawn over the last of its theme.
    """
    colours = theme_colours(theme)
    if not heading:
        sheet = _plain_sheet(theme)
        ax = sheet.axes[0]
        for artist in (*ax.lines, *ax.patches, *ax.texts, *sheet.texts, *sheet.legends):
            artist.remove()
        draw_axes(figure, ax, colours)
        _write_key(sheet, figure, (_KEY - 12) / _HEIGHT, colours)
        return sheet
    notes = wrapped(figure.notes, _WIDTH - 2 * _RIGHT)
    below = _NOTE_LINE * len(notes)
    height = _HEIGHT + _HEADING + below
    sheet = _empty_sheet(theme, _HEADING, below)
    _write_heading(sheet, figure, height, colours)
    for index, line in enumerate(reversed(notes)):
        y = (8 + _NOTE_LINE * index) / height
        sheet.text(16 / _WIDTH, y, line, size=SMALL, color=colours["muted"], parse_math=False)
    draw_axes(figure, sheet.axes[0], colours)
    _write_key(sheet, figure, (below + _KEY - 12) / height, colours)
    return sheet


def _empty_sheet(theme: ThemeName, above: float = 0.0, below: float = 0.0) -> Figure:
    """Return a sheet with axes and nothing on them, and so much room for a heading above and notes below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = _HEIGHT + above + below
    sheet = Figure(figsize=(_WIDTH / 72, height / 72), dpi=72, facecolor=theme_colours(theme)["background"])
    FigureCanvasAgg(sheet)
    bottom = _BOTTOM + _KEY + below
    box = (_LEFT, bottom, _WIDTH - _LEFT - _RIGHT, height - _TOP - above - bottom)
    sheet.add_axes((box[0] / _WIDTH, box[1] / height, box[2] / _WIDTH, box[3] / height))
    return sheet


_plain_sheet = cache(_empty_sheet)
"""The sheet of all charts of a page: to make axes and their ticks takes as long as to draw on them."""


def _write_heading(sheet: Figure, figure: RooflineFigure, height: float, colours: dict[str, str]) -> None:
    texts = [
        (figure.title, TITLE, "bold", "ink", height - 22),
        (figure.subtitle, SMALL + 0.5, "normal", "muted", height - 38),
    ]
    for text, size, weight, role, y in texts:
        line = fitted(printable(text), _WIDTH - 32, size)
        sheet.text(16 / _WIDTH, y / height, line, size=size, color=colours[role], weight=weight, parse_math=False)


def _write_key(sheet: Figure, figure: RooflineFigure, y: float, colours: dict[str, str]) -> None:
    """Write one line that says what shapes, dashes and areas mean."""
    handles = [*_shape_handles(figure, colours), *_roof_handles(figure, colours)]
    if handles:
        sheet.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(16 / _WIDTH, y), ncols=len(handles), frameon=False,
            fontsize=SMALL, labelcolor=colours["muted"], handlelength=2.2, handletextpad=0.5,
            columnspacing=1.4, borderpad=0, borderaxespad=0,
        )  # fmt: skip
    has_shares = any(point.share is not None for point in figure.points)
    meanings = ["point area: share of the time"] if figure.sized and has_shares else []
    meanings += [f"hollow: {_why_hollow(figure)}"] if any(point.hollow for point in figure.points) else []
    meanings += ["filled: new"] if any(point.side == "new" for point in figure.points) else []
    place = (1 - _RIGHT / _WIDTH, y + 1.5 / _HEIGHT)
    sheet.text(*place, ", ".join(meanings), size=SMALL, color=colours["muted"], ha="right", parse_math=False)


def _why_hollow(figure: RooflineFigure) -> str:
    if any(point.side for point in figure.points):
        return "base"
    estimated = any(point.estimated for point in figure.points)
    uncertified = any(point.uncertified for point in figure.points)
    return " or ".join(word for word, so in (("estimated", estimated), ("unchecked", uncertified)) if so)


def _shape_handles(figure: RooflineFigure, colours: dict[str, str]) -> Iterator[Line2D]:
    from matplotlib.lines import Line2D

    for name in dict.fromkeys(family(point.path) for point in figure.points):
        colour = colours[f"line-{name}" if figure.sized else "muted"]
        paths = dict.fromkeys(point.path for point in figure.points if family(point.path) == name)
        yield Line2D(
            [], [], linestyle="none", marker=MARKERS[name], markersize=6, markerfacecolor=(colour, 0.45),
            markeredgecolor=colour, label=", ".join(path_name(path) for path in paths),
        )  # fmt: skip


def _roof_handles(figure: RooflineFigure, colours: dict[str, str]) -> Iterator[Line2D]:
    from matplotlib.lines import Line2D

    for style, origin in dict.fromkeys((roof.style, roof.origin) for roof in figure.roofs):
        label = "ceiling at clock" if origin == "at-clock" else f"{origin} ceiling"
        width, dashes = STROKES[style]
        yield Line2D([], [], color=colours["muted"], linestyle=dashes, linewidth=width, label=label)
