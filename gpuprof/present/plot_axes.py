"""Draws the inside of a RooflineFigure on matplotlib axes, from back to front: grid, ceilings, points, labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprof.present.label_placement import Box, Occupied, Segment, place_along, place_around, place_beside
from gpuprof.present.plot_labels import point_labels, roof_labels
from gpuprof.present.plot_marks import (
    MARKERS,
    STROKES,
    family,
    point_area,
    point_colour,
    point_id,
    point_reach,
    point_width,
    roof_colour,
    roof_id,
)
from gpuprof.present.plot_text import SMALL, TEXT, text_width
from gpuprof.present.roofline_figure import Arrow, Extent, FigurePoint, Ridge, RoofLine, RooflineFigure
from gpuprof.present.session_text import LEVEL_NAMES
from gpuprof.units import format_si, significant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CROWDED = 20.0
"""A ceiling's label that costs more than this along its line may stand beside it."""
_RIDGE_COST = 8.0
"""A ridge's label that costs more than this is left out."""
_SHORT_LEADER = 5.0
_LEAST_ARROW, _FAINT = 3.0, 0.35
"""Shorter than its head an arrow shows nothing."""


def draw_axes(figure: RooflineFigure, ax: Axes, colours: dict[str, str]) -> None:
    """Draw everything that lies on the axes, then find room for the texts: ceilings first, points last."""
    canvas = _Canvas(figure, ax, colours)
    _draw_frame(canvas)
    for roof in figure.roofs:
        _draw_roof(canvas, roof)
    for chain in _chains([point for point in figure.points if not point.side]):
        canvas.line(chain, color=colours["muted"], linewidth=0.8, linestyle=(0, (1, 2)), zorder=3)
    for point in sorted(
        figure.points, key=lambda point: (not point.faint, point.side == "new", -point_area(figure, point))
    ):
        _draw_point(canvas, point)
    for arrow in figure.arrows:
        _draw_arrow(canvas, arrow)
    for roof, text in roof_labels(figure):
        _label_roof(canvas, roof, text)
    _draw_ridges(canvas, [ridge for ridge in figure.ridges if ridge.origin == figure.ceiling])
    for point, text in point_labels(figure, canvas.at):
        _label_point(canvas, point, text)


@dataclass(slots=True)
class _Canvas:
    """The axes that a figure is drawn on, in points from the lower left corner, and what is drawn there already."""

    figure: RooflineFigure
    ax: Axes
    colours: dict[str, str]
    occupied: Occupied = field(init=False)
    size: Extent = field(init=False)

    def __post_init__(self) -> None:
        window = self.ax.get_window_extent()
        scale = 72 / self.ax.figure.dpi
        self.size = (window.width * scale, window.height * scale)
        self.occupied = Occupied(self.size)

    def at(self, x: float, y: float) -> Extent:
        """Return the place of a value in points."""
        (left, right), (bottom, top) = self.figure.intensity_range, self.figure.flop_per_s_range
        return (
            self.size[0] * math.log(x / left) / math.log(right / left),
            self.size[1] * math.log(y / bottom) / math.log(top / bottom),
        )

    def roof_at(self, roof: RoofLine) -> Segment:
        """Return the ends of a ceiling in points."""
        return self.at(*roof.line[0]), self.at(*roof.line[1])

    def line(self, values: Sequence[Extent], **style: object) -> None:
        """Draw a line or a marker at values."""
        from matplotlib.lines import Line2D

        xs, ys = zip(*values, strict=True)
        self.ax.add_line(Line2D(xs, ys, **style))  # type: ignore[arg-type]

    def leader(self, start: Extent, end: Extent) -> None:
        """Draw the thin line from a label to what it names."""
        ends = [(x / self.size[0], y / self.size[1]) for x, y in (start, end)]
        self.line(ends, color=self.colours["muted"], linewidth=0.7, transform=self.ax.transAxes, zorder=3.8)
        self.occupied.add_line((start, end))

    def text(self, place: Extent, text: str, size: float, colour: str, gid: str = "", rotation: float = 0.0) -> None:
        """Write a text that begins at a place in points."""
        drawn = self.ax.text(
            place[0] / self.size[0],
            place[1] / self.size[1],
            text,
            transform=self.ax.transAxes,
            size=size,
            color=colour,
            rotation=rotation,
            rotation_mode="anchor",
            verticalalignment="baseline",
            parse_math=False,
            zorder=6,
            bbox={"facecolor": self.colours["background"], "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        )
        if gid:
            drawn.set_gid(gid)

    def text_in(self, box: Box, text: str, size: float, colour: str, gid: str = "") -> None:
        """Write a text into the box that was found for it."""
        self.text((box.left + 1, box.bottom + 2.2), text, size, colour, gid)
        self.occupied.add_text([box])


def _draw_frame(canvas: _Canvas) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax, figure, colours = canvas.ax, canvas.figure, canvas.colours
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*figure.intensity_range)
    ax.set_ylim(*figure.flop_per_s_range)
    ax.set_facecolor(colours["background"])
    one_level = len(figure.levels) == 1
    traffic = f"of {LEVEL_NAMES[figure.levels[0]]} traffic" if one_level else "at each level"
    ax.set_xlabel(f"arithmetic intensity, {figure.unit} per byte {traffic}", size=TEXT, color=colours["muted"])
    ax.set_ylabel(f"performance, {figure.unit}/s", size=TEXT, color=colours["muted"])
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(10, numticks=20))
        axis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value, 1)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, "", 1)))
    ax.tick_params(which="both", length=0, labelsize=SMALL, labelcolor=colours["muted"], pad=5)
    ax.grid(True, color=colours["grid"], linewidth=0.7)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(colours["muted"])
        spine.set_linewidth(0.8)


def _draw_roof(canvas: _Canvas, roof: RoofLine) -> None:
    width, dashes = STROKES[roof.style]
    canvas.line(
        roof.line,
        gid=roof_id(roof),
        color=canvas.colours[f"line-{roof_colour(roof)}"],
        linewidth=width,
        linestyle=dashes,
        zorder=2.2 if roof.style == "dashed" else 2.0,
    )
    canvas.occupied.add_line(canvas.roof_at(roof))


def _chains(points: Sequence[FigurePoint]) -> Iterator[list[Extent]]:
    """Yield the places of each kernel that has several points."""
    for kernel in dict.fromkeys(point.kernel for point in points):
        places = [(point.intensity, point.flop_per_s) for point in points if point.kernel == kernel]
        if len(places) > 1:
            yield sorted(places)


def _draw_point(canvas: _Canvas, point: FigurePoint) -> None:
    colour = canvas.colours[f"line-{point_colour(canvas.figure, point)}"]
    canvas.line(
        [(point.intensity, point.flop_per_s)],
        gid=point_id(point),
        marker=MARKERS[family(point.path)],
        markersize=point_width(canvas.figure, point),
        markerfacecolor=canvas.colours["background"] if point.hollow else (colour, 0.45),
        markeredgecolor=colour,
        markeredgewidth=1.6 if point.hollow else 1.1,
        alpha=_FAINT if point.faint else None,
        linestyle="none",
        zorder=4,
    )
    x, y = canvas.at(point.intensity, point.flop_per_s)
    half = point_reach(canvas.figure, point) + 1
    canvas.occupied.add_mark(Box(left=x - half, bottom=y - half, right=x + half, top=y + half))


def _draw_arrow(canvas: _Canvas, arrow: Arrow) -> None:
    """Draw an arrow from edge to edge of its points; where they touch, from middle to middle, over them."""
    from matplotlib.patches import FancyArrowPatch

    start, end = ((point.intensity, point.flop_per_s) for point in arrow)
    gaps = [point_reach(canvas.figure, point) + 1.5 for point in arrow]
    ends = (canvas.at(*start), canvas.at(*end))
    length = math.dist(*ends)
    if length < sum(gaps) + _LEAST_ARROW:
        gaps = [0.0, 0.0]
    if length < _LEAST_ARROW:
        return
    patch = FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=9, shrinkA=gaps[0], shrinkB=gaps[1], linewidth=1.2,
        color=canvas.colours["ink"], zorder=4.5, clip_on=True, transform=canvas.ax.transData,
    )  # fmt: skip
    canvas.ax.add_patch(patch)
    canvas.occupied.add_line(ends)


def _label_roof(canvas: _Canvas, roof: RoofLine, text: str) -> None:
    """Write a ceiling's name and value: along it where there is room, else beside it with a leader."""
    colour, gid = canvas.colours[f"text-{roof_colour(roof)}"], f"label-{roof.id}"
    line, width = canvas.roof_at(roof), text_width(text, SMALL)
    near_start, above = roof.kind == "bandwidth", roof.origin != "at-clock"
    along = place_along(canvas.occupied, line, width, SMALL, near_start=near_start, above=above)
    cost = along.cost if along is not None else math.inf
    # Beside its line a ceiling's text is given the height of a point's.
    beside = place_beside(canvas.occupied, line, width, TEXT) if cost > _CROWDED else None
    if beside is not None and beside.cost < cost:
        canvas.text_in(beside.box, text, SMALL, colour, gid)
        canvas.leader(beside.root, beside.tip)
    elif along is not None:
        canvas.text(along.start, text, SMALL, colour, gid, rotation=math.degrees(along.angle))
        canvas.occupied.add_text(along.boxes)


def _draw_ridges(canvas: _Canvas, ridges: Sequence[Ridge]) -> None:
    """Mark the ridges of the ceilings that percentages refer to, and write the intensity of the few that fit."""
    for ridge in ridges:
        canvas.line(
            [(ridge.intensity, ridge.flop_per_s)],
            gid=f"ridge-{ridge.path}-{ridge.level}",
            marker="o",
            markersize=4,
            markerfacecolor=canvas.colours["background"],
            markeredgecolor=canvas.colours["muted"],
            linestyle="none",
            zorder=3.5,
        )
        _label_ridge(canvas, ridge)


def _label_ridge(canvas: _Canvas, ridge: Ridge) -> None:
    x, y = canvas.at(ridge.intensity, ridge.flop_per_s)
    text = f"ridge {significant(ridge.intensity)}"
    width = text_width(text, SMALL)
    for left in (x + 6.0, x - 6.0 - width):
        box = Box(left=left - 2, bottom=y - SMALL - 5, right=left + width + 2, top=y - 4)
        if canvas.occupied.cost([box]) < _RIDGE_COST:
            canvas.text((left, y - SMALL - 3), text, SMALL, canvas.colours["muted"])
            canvas.occupied.add_text([box])
            return


def _label_point(canvas: _Canvas, point: FigurePoint, text: str) -> None:
    """Write a point's label near it, with a leader where it is not beside it."""
    middle = canvas.at(point.intensity, point.flop_per_s)
    radius = point_reach(canvas.figure, point)
    place = place_around(canvas.occupied, middle, radius, text_width(text, TEXT), TEXT)
    if place is None:
        return
    role = "ink" if canvas.figure.sized else f"text-{point.level}"
    canvas.text_in(place.box, text, TEXT, canvas.colours[role], gid=f"label-{point_id(point)}")
    if math.dist(place.root, place.tip) > _SHORT_LEADER:
        canvas.leader(place.root, place.tip)
