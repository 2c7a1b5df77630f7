"""Draws with matplotlib: for PNG, PDF and notebooks. It is imported only where these are wanted, for it takes long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.text import Text

from gpuprof.present.plot_axes import axes_of, axes_shapes
from gpuprof.present.plot_shapes import Label, Line, Shape
from gpuprof.present.plot_sheet import sheet_of
from gpuprof.present.plot_text import SMALL, TEXT
from gpuprof.present.roofline_figure import Extent, RooflineFigure

_HORIZONTAL: dict[str, Literal["left", "center", "right"]] = {"start": "left", "middle": "center", "end": "right"}
_LEFT_TO_RIGHT = "\u200e"


def drawn_sheet(figure: RooflineFigure, colours: Mapping[str, str]) -> Figure:
    """Return the whole drawing: a heading, the axes, the key below them, and notes."""
    sheet = sheet_of(figure, colours, heading=True)
    (width, height), (axes_width, axes_height) = sheet.size, sheet.axes_size
    left, bottom = sheet.corner[0], height - sheet.corner[1]
    drawn = Figure(figsize=(width / 72, height / 72), dpi=72, facecolor=colours["background"])
    FigureCanvasAgg(drawn)
    ax = drawn.add_axes((left / width, bottom / height, axes_width / width, axes_height / height))
    for shape in sheet.around:
        drawn.add_artist(_artist(shape, lambda place: ((left + place[0]) / width, (bottom + place[1]) / height)))
    draw_into(ax, figure, colours)
    return drawn


def draw_into(ax: Axes, figure: RooflineFigure, colours: Mapping[str, str]) -> None:
    """Draw a figure into axes, without what stands around them, at values of the axes: they can be zoomed."""
    _draw_frame(ax, figure, colours)
    window, scale = ax.get_window_extent(), 72 / ax.figure.dpi
    size = (window.width * scale, window.height * scale)

    def value_at(place: Extent) -> Extent:
        (left, right), (bottom, top) = figure.intensity_range, figure.flop_per_s_range
        return left * (right / left) ** (place[0] / size[0]), bottom * (top / bottom) ** (place[1] / size[1])

    for shape in axes_shapes(figure, size, colours):
        ax.add_artist(_artist(shape, value_at))


def _draw_frame(ax: Axes, figure: RooflineFigure, colours: Mapping[str, str]) -> None:
    muted = colours["muted"]
    ax.set_facecolor(colours["background"])
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis, (name, ticks) in zip((ax.xaxis, ax.yaxis), axes_of(figure), strict=True):
        axis.set_label_text(name, size=TEXT, color=muted)
        axis.set_ticks([value for value, _ in ticks], labels=[text for _, text in ticks])
    ax.set_xlim(*figure.intensity_range)
    ax.set_ylim(*figure.flop_per_s_range)
    ax.minorticks_off()
    ax.tick_params(length=0, labelsize=SMALL, labelcolor=muted, pad=5)
    ax.grid(True, color=colours["grid"], linewidth=0.7)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set(visible=side in {"left", "bottom"}, color=muted, linewidth=0.8)


def _artist(shape: Shape, at: Callable[[Extent], Extent]) -> Artist:
    if isinstance(shape, Line):
        xs, ys = zip(*map(at, shape.places), strict=True)
        line = Line2D(xs, ys, color=shape.colour, linewidth=shape.width, gid=shape.id)
        if shape.dashes:
            line.set_linestyle((0.0, shape.dashes))
        return line
    x, y = at(shape.place)
    if isinstance(shape, Label):
        # A text keeps the order of an English sentence where a name in it runs from right to left.
        text = shape.text if shape.text.isascii() else _LEFT_TO_RIGHT + shape.text
        ground = {"facecolor": shape.ground, "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
        return Text(
            x, y, text, size=shape.size, color=shape.colour, weight="bold" if shape.bold else "normal",
            rotation=shape.rotation, rotation_mode="anchor", horizontalalignment=_HORIZONTAL[shape.anchor],
            parse_math=False, bbox=ground if shape.ground else None, gid=shape.id,
        )  # fmt: skip
    return Line2D(
        [x], [y], gid=shape.id, linestyle="none", markersize=shape.width, markeredgewidth=shape.edge_width,
        marker=MarkerStyle(shape.shape).rotated(deg=shape.rotation),
        markeredgecolor=(shape.edge, shape.edge_opacity), markerfacecolor=(shape.fill, shape.fill_opacity),
    )  # fmt: skip
