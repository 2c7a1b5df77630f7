"""Draws on the axes of matplotlib: for PNG, PDF and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuprof.present.label_placement import Segment
from gpuprof.present.plot_axes import draw_axes
from gpuprof.present.plot_canvas import Canvas, Mark, Stroke, axis_names, number_on_x, number_on_y
from gpuprof.present.plot_marks import FAINT_OPACITY
from gpuprof.present.plot_sheet import SAMPLE_WIDTH, sheet_of
from gpuprof.present.plot_text import SMALL, TEXT
from gpuprof.present.roofline_figure import Extent, RooflineFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


def drawn_sheet(figure: RooflineFigure, colours: Mapping[str, str]) -> Figure:
    """Return the whole drawing: a heading, the axes, the key below them, and notes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sheet = sheet_of(figure, colours, heading=True)
    width, height = sheet.size
    drawn = Figure(figsize=(width / 72, height / 72), dpi=72, facecolor=colours["background"])
    FigureCanvasAgg(drawn)
    (left, bottom), (axes_width, axes_height) = sheet.axes_at, sheet.axes_size
    ax = drawn.add_axes((left / width, bottom / height, axes_width / width, axes_height / height))
    for text in sheet.texts:
        drawn.text(
            text.x / width, text.y / height, text.text, size=text.size, color=text.colour, parse_math=False,
            weight="bold" if text.bold else "normal", ha="right" if text.to_right_edge else "left",
        )  # fmt: skip
    for x, y, sample in sheet.samples:
        xs = [x, x + SAMPLE_WIDTH] if isinstance(sample, Stroke) else [x + SAMPLE_WIDTH / 2]
        places = [(x / width, y / height) for x in xs]
        drawn.add_artist(_line(places, sample) if isinstance(sample, Stroke) else _mark(places[0], sample))
    draw_into(ax, figure, colours)
    return drawn


def draw_into(ax: Axes, figure: RooflineFigure, colours: Mapping[str, str]) -> None:
    """Draw a figure into axes, without what stands around them."""
    draw_axes(_AxesCanvas(figure, ax, colours))


def _line(places: Sequence[Extent], stroke: Stroke) -> Line2D:
    from matplotlib.lines import Line2D

    xs, ys = zip(*places, strict=True)
    line = Line2D(xs, ys, color=stroke.colour, linewidth=stroke.width)
    if stroke.dashes:
        line.set_linestyle((0.0, stroke.dashes))
    return line


def _mark(place: Extent, mark: Mark) -> Line2D:
    from matplotlib.lines import Line2D

    drawn = Line2D(
        [place[0]], [place[1]], marker=mark.shape, markersize=mark.width, markeredgecolor=mark.edge,
        markeredgewidth=mark.edge_width, markerfacecolor=(mark.fill, mark.fill_opacity), linestyle="none",
    )  # fmt: skip
    if mark.faint:
        drawn.set_alpha(FAINT_OPACITY)
    return drawn


class _AxesCanvas(Canvas):
    """The axes of matplotlib."""

    def __init__(self, figure: RooflineFigure, ax: Axes, colours: Mapping[str, str]) -> None:
        window, scale = ax.get_window_extent(), 72 / ax.figure.dpi
        super().__init__(figure, (window.width * scale, window.height * scale), colours)
        self._ax = ax

    def frame(self) -> None:
        """Draw the axes with their names, ticks and grid."""
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        ax, muted = self._ax, self.colours["muted"]
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(*self.figure.intensity_range)
        ax.set_ylim(*self.figure.flop_per_s_range)
        ax.set_facecolor(self.colours["background"])
        name_of_x, name_of_y = axis_names(self.figure)
        ax.set_xlabel(name_of_x, size=TEXT, color=muted)
        ax.set_ylabel(name_of_y, size=TEXT, color=muted)
        for axis, written in ((ax.xaxis, number_on_x), (ax.yaxis, number_on_y)):
            axis.set_major_locator(LogLocator(10, numticks=20))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _, written=written: written(value)))
        ax.tick_params(which="both", length=0, labelsize=SMALL, labelcolor=muted, pad=5)
        ax.grid(True, color=self.colours["grid"], linewidth=0.7)
        ax.set_axisbelow(True)
        for side, spine in ax.spines.items():
            spine.set_visible(side in {"left", "bottom"})
            spine.set_color(muted)
            spine.set_linewidth(0.8)

    def line(self, values: Sequence[Extent], stroke: Stroke, layer: float, gid: str = "") -> None:
        """Draw a line through values."""
        self._add(_line(values, stroke), layer, gid)

    def mark(self, value: Extent, mark: Mark, layer: float, gid: str) -> None:
        """Draw a mark at a value."""
        self._add(_mark(value, mark), layer, gid)

    def arrow(self, start: Extent, end: Extent, gaps: Sequence[float]) -> None:
        """Draw an arrow between values, so many points short of each."""
        from matplotlib.patches import FancyArrowPatch

        patch = FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=9, shrinkA=gaps[0], shrinkB=gaps[1], linewidth=1.2,
            color=self.colours["ink"], zorder=4.5, clip_on=True, transform=self._ax.transData,
        )  # fmt: skip
        self._ax.add_patch(patch)

    def segment(self, ends: Segment) -> None:
        """Draw the line of a leader, whose ends are in points."""
        line = _line([(x / self.size[0], y / self.size[1]) for x, y in ends], Stroke(self.colours["muted"], 0.7))
        line.set_transform(self._ax.transAxes)
        self._add(line, 3.8, "")

    def text(self, place: Extent, text: str, size: float, colour: str, gid: str = "", rotation: float = 0.0) -> None:
        """Write a text that begins at a place in points, turned by degrees, on a faint ground."""
        self._ax.text(
            place[0] / self.size[0], place[1] / self.size[1], text, transform=self._ax.transAxes, size=size,
            color=colour, rotation=rotation, rotation_mode="anchor", verticalalignment="baseline", parse_math=False,
            zorder=6, gid=gid or None,
            bbox={"facecolor": self.colours["background"], "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        )  # fmt: skip

    def _add(self, line: Line2D, layer: float, gid: str) -> None:
        line.set_zorder(layer)
        line.set_gid(gid)
        self._ax.add_line(line)
