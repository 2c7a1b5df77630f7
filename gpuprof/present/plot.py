"""Draws a RooflineFigure with matplotlib as SVG or PNG: colours, labels that do not collide, stable bytes.

Lengths are points (1/72 inch). Labels are placed greedily: every candidate position has a cost, the cheapest wins.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuprof.present import words
from gpuprof.present.figures import FigurePoint, RoofLine, RooflineFigure, Span
from gpuprof.present.text import printable
from gpuprof.units import format_percent, format_si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

ThemeName = Literal["light", "dark", "page"]

_WIDTH, _HEIGHT = 620.0, 430.0
_MARGINS = {"left": 62.0, "right": 16.0, "bottom": 36.0, "top": 14.0}
_HEADING, _KEY, _NOTE_LINE = 36.0, 22.0, 12.0
_PNG_DPI = 200
_TEXT, _SMALL, _TITLE = 9.0, 8.0, 12.0
_LABELLED_KERNELS, _ALWAYS_LABELLED, _LEAST_SHARE = 8, 3, 0.01
_LABEL_WIDTH = 190.0
_FULL_AREA, _LEAST_AREA, _PLAIN_AREAS = 600.0, 20.0, {"l1": 130.0, "l2": 75.0, "dram": 36.0}
_SAME_PLACE = 30.0
_TITLE_LENGTH = 100
_CROWDED = 20.0
"""A roof's label that costs more than this along its line may stand beside it."""

# Okabe and Ito's palette. Levels and paths keep their colour everywhere; yellow is left out, it is unreadable on white.
PALETTE = {
    "dram": "#d55e00", "l2": "#009e73", "l1": "#0072b2",
    "fp64": "#cc79a7", "fp32": "#56b4e9", "fp16": "#f0e442", "int32": "#999999", "tensor": "#e69f00",
}  # fmt: skip
_MARKERS = {"fp64": "s", "fp32": "o", "fp16": "^", "int32": "v", "tensor": "D"}
_AREA_OF_UNIT = {"s": 1.0, "o": math.pi / 4, "^": 0.5, "v": 0.5, "D": 1.0}
_REACH_OF_UNIT = {"s": 0.5, "o": 0.5, "^": 0.5, "v": 0.5, "D": 0.71}
_STROKES: dict[str, tuple[float, tuple[float, tuple[float, ...]] | Literal["solid"]]] = {
    "dashed": (1.5, (0.0, (4.0, 2.5))), "solid": (1.5, "solid"), "bold": (2.8, "solid"),
}  # fmt: skip
_BASE_COLOURS = {
    "light": {"background": "#ffffff", "ink": "#1b1d21", "muted": "#5a5f69", "grid": "#e4e6ea"},
    "dark": {"background": "#16181d", "ink": "#e9eaec", "muted": "#a9aeb7", "grid": "#2d3138"},
}
_LINE_CONTRAST, _TEXT_CONTRAST = 3.0, 4.6


def render_svg(figure: RooflineFigure, theme: ThemeName = "light", *, heading: bool = True) -> str:
    """Return the figure as SVG text. `page` gives CSS variables instead of colours, see `page_colours`."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        _reset_style(figure)
        out = io.BytesIO()
        drawn = _whole_figure(figure, theme, heading=heading)
        drawn.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, facecolor=drawn.get_facecolor())
    return _finished_svg(out.getvalue().decode(), figure, theme)


def render_png(figure: RooflineFigure, theme: ThemeName = "light") -> bytes:
    """Return the figure as a PNG of about 1720 pixels width."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        _reset_style(figure)
        out = io.BytesIO()
        drawn = _whole_figure(figure, "light" if theme == "page" else theme, heading=True)
        drawn.savefig(out, format="png", dpi=_PNG_DPI, facecolor=drawn.get_facecolor(), metadata={"Software": None})
    return out.getvalue()


def draw(figure: RooflineFigure, ax: Axes | None = None, theme: ThemeName = "light") -> Axes:
    """Draw into `ax`, or into a new figure of its own, and return the axes, so that notebooks can add to them."""
    if ax is None:
        return _whole_figure(figure, theme, heading=True).axes[0]
    _Drawing(figure, ax, _colours(theme)).draw()
    return ax


def page_colours() -> dict[str, tuple[str, str]]:
    """Return the CSS variables that an SVG of theme `page` uses, with their light and dark values."""
    light, dark = _colours("light"), _colours("dark")
    return {f"--gp-{role}": (light[role], dark[role]) for role in light}


@lru_cache(maxsize=3)
def _colours(theme: ThemeName) -> dict[str, str]:
    """Return the colour of each role; lines and texts are shifted until they stand out from the background."""
    if theme == "page":
        return {role: f"#fa{index:02x}7e" for index, role in enumerate(_colours("light"))}
    colours = dict(_BASE_COLOURS[theme])
    background = colours["background"]
    for name, colour in PALETTE.items():
        colours[f"line-{name}"] = _standing_out(colour, background, _LINE_CONTRAST)
        colours[f"text-{name}"] = _standing_out(colour, background, _TEXT_CONTRAST)
    return colours


def _standing_out(colour: str, background: str, contrast: float) -> str:
    target = 0.0 if _luminance(background) > 0.5 else 1.0
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    for step in range(101):
        mixed = [channel + (target - channel) * step / 100 for channel in channels]
        text = "#" + "".join(f"{round(channel * 255):02x}" for channel in mixed)
        if contrast_ratio(text, background) >= contrast:
            return text
    raise AssertionError("unreachable: black and white stand out from any background")


def contrast_ratio(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, 1 to 21."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[start : start + 2], 16) / 255) for start in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _reset_style(figure: RooflineFigure) -> None:
    """Make the result independent of the user's matplotlibrc; kernel names may have glyphs that the font lacks."""
    import matplotlib

    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"svg.hashsalt": f"gpuprof {figure.id}", "svg.fonttype": "none", "text.usetex": False})
    warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")


def _whole_figure(figure: RooflineFigure, theme: ThemeName, *, heading: bool) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = _colours(theme)
    notes = _wrapped(figure.notes, _WIDTH - 2 * _MARGINS["right"]) if heading else []
    above = _MARGINS["top"] + (_HEADING if heading else 0.0)
    below = _MARGINS["bottom"] + _KEY + _NOTE_LINE * len(notes)
    height = _HEIGHT + (above - _MARGINS["top"]) + _NOTE_LINE * len(notes)
    drawn = Figure(figsize=(_WIDTH / 72, height / 72), dpi=72, facecolor=colours["background"])
    FigureCanvasAgg(drawn)
    box = (_MARGINS["left"], below, _WIDTH - _MARGINS["left"] - _MARGINS["right"], height - above - below)
    ax = drawn.add_axes((box[0] / _WIDTH, box[1] / height, box[2] / _WIDTH, box[3] / height))
    if heading:
        texts = [(figure.title, _TITLE, "ink", height - 22), (figure.subtitle, _SMALL + 0.5, "muted", height - 38)]
        for text, size, role, y in texts:
            fitted = _fitted(printable(text), _WIDTH - 32, size)
            weight = "bold" if size == _TITLE else "normal"
            drawn.text(16 / _WIDTH, y / height, fitted, size=size, color=colours[role], weight=weight, parse_math=False)
    for index, line in enumerate(reversed(notes)):
        y = (8 + _NOTE_LINE * index) / height
        drawn.text(16 / _WIDTH, y, line, size=_SMALL, color=colours["muted"], parse_math=False)
    drawing = _Drawing(figure, ax, colours)
    drawing.draw()
    drawing.key(drawn, 16 / _WIDTH, (below - _MARGINS["bottom"] - 12) / height)
    return drawn


class _Box(NamedTuple):
    """An upright rectangle in points."""

    left: float
    bottom: float
    right: float
    top: float

    def inside(self, other: _Box) -> bool:
        """Tell whether the whole box lies in another."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.bottom >= other.bottom
            and self.top <= other.top
        )


class _Raster:
    """A density over the frame in cells of one square point, and its sum over any box in constant time."""

    def __init__(self, size: Span) -> None:
        import numpy

        self._cells = numpy.zeros((math.ceil(size[0]) + 1, math.ceil(size[1]) + 1))
        self._sums: NDArray[numpy.float64] | None = None

    def _window(self, box: _Box) -> tuple[int, int, int, int]:
        columns, rows = self._cells.shape
        left, right = max(0, int(box.left + 0.5)), min(columns, int(box.right + 0.5))
        bottom, top = max(0, int(box.bottom + 0.5)), min(rows, int(box.top + 0.5))
        return left, max(left, right), bottom, max(bottom, top)

    def add(self, box: _Box, density: float) -> None:
        """Add to every cell that a box touches."""
        left, right, bottom, top = self._window(box)
        self._cells[left:right, bottom:top] += density
        self._sums = None

    def total(self, box: _Box) -> float:
        """Return the sum over the cells that a box touches, from a summed-area table."""
        import numpy

        if self._sums is None:
            self._sums = numpy.pad(self._cells.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
        left, right, bottom, top = self._window(box)
        sums = self._sums
        return float(sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom])


class _Occupied:
    """What has been drawn inside the frame so far, and what a further text there would cost."""

    def __init__(self, size: Span) -> None:
        self._frame = _Box(3, 3, size[0] - 3, size[1] - 3)
        self._texts = _Raster(size)
        self._ink = _Raster(size)

    def cost(self, boxes: Sequence[_Box]) -> float:
        """Return the cost of a text that covers these boxes; infinite outside the frame or over another text."""
        if any(not box.inside(self._frame) or self._texts.total(box) > 0.5 for box in boxes):
            return math.inf
        return sum(self._ink.total(box) for box in boxes)

    def leader_cost(self, start: Span, end: Span) -> float:
        """Return the cost of a leader: its length and what it crosses; infinite through a text."""
        windows = [_Box(x - 2, y - 2, x + 2, y + 2) for x, y in _samples((start, end))]
        if any(self._texts.total(window) > 0.5 for window in windows):
            return math.inf
        return 0.15 * math.dist(start, end) + sum(self._ink.total(window) for window in windows)

    def add_text(self, boxes: Iterable[_Box]) -> None:
        """Remember a text."""
        for box in boxes:
            self._texts.add(box, 1.0)

    def add_mark(self, box: _Box) -> None:
        """Remember a point: to hide it whole costs as much as to cross many lines."""
        self._ink.add(box, 40 / max(1.0, (box.right - box.left) * (box.top - box.bottom)))

    def add_line(self, line: tuple[Span, Span]) -> None:
        """Remember a line."""
        for x, y in _samples(line):
            self._ink.add(_Box(x - 0.5, y - 0.5, x + 0.5, y + 0.5), 1.5)


def _samples(line: tuple[Span, Span], step: float = 3.0) -> list[Span]:
    (x0, y0), (x1, y1) = line
    count = max(1, math.ceil(math.dist(*line) / step))
    return [(x0 + (x1 - x0) * index / count, y0 + (y1 - y0) * index / count) for index in range(count + 1)]


@dataclass(slots=True)
class _Drawing:
    """One figure on one pair of axes."""

    figure: RooflineFigure
    ax: Axes
    colours: dict[str, str]
    occupied: _Occupied = field(init=False)
    size: Span = field(init=False)

    def __post_init__(self) -> None:
        window = self.ax.get_window_extent()
        scale = 72 / self.ax.get_figure(root=True).dpi  # type: ignore[union-attr]
        self.size = (window.width * scale, window.height * scale)
        self.occupied = _Occupied(self.size)

    def draw(self) -> None:
        """Draw everything, from the back to the front, then find room for the texts."""
        self._frame()
        self._roofs()
        self._points()
        self._roof_labels()
        self._ridges()
        self._point_labels()

    def at(self, x: float, y: float) -> Span:
        """Return the place of a value in points from the lower left corner of the frame."""
        (left, right), (bottom, top) = self.figure.intensity_range, self.figure.flop_per_s_range
        return (
            self.size[0] * math.log(x / left) / math.log(right / left),
            self.size[1] * math.log(y / bottom) / math.log(top / bottom),
        )

    def _frame(self) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        ax, unit = self.ax, self.figure.unit
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(*self.figure.intensity_range)
        ax.set_ylim(*self.figure.flop_per_s_range)
        ax.set_facecolor(self.colours["background"])
        levels = self.figure.levels
        traffic = f"of {words.LEVEL_NAMES[levels[0]]} traffic" if len(levels) == 1 else "of traffic at each level"
        ax.set_xlabel(f"{unit} per byte {traffic}", size=_TEXT, color=self.colours["muted"])
        ax.set_ylabel(f"{unit}/s", size=_TEXT, color=self.colours["muted"])
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(10, numticks=20))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, "", 1)))
        ax.tick_params(which="both", length=0, labelsize=_SMALL, labelcolor=self.colours["muted"], pad=5)
        ax.grid(True, color=self.colours["grid"], linewidth=0.7)
        ax.set_axisbelow(True)
        for side, spine in ax.spines.items():
            spine.set_visible(side in {"left", "bottom"})
            spine.set_color(self.colours["muted"])
            spine.set_linewidth(0.8)

    def _line(self, points: Sequence[Span], **style: object) -> None:
        from matplotlib.lines import Line2D

        xs, ys = zip(*points, strict=True)
        self.ax.add_line(Line2D(xs, ys, **style))  # type: ignore[arg-type]

    def _roofs(self) -> None:
        for roof in self.figure.roofs:
            self._line(
                roof.line,
                gid=f"roof-{roof.id}",
                color=self.colours[f"line-{_colour_name(roof)}"],
                linewidth=_STROKES[roof.style][0],
                linestyle=_STROKES[roof.style][1],
                zorder=2.2 if roof.style == "dashed" else 2.0,
            )
            self.occupied.add_line((self.at(*roof.line[0]), self.at(*roof.line[1])))

    def _points(self) -> None:
        for chain in _chains(self.figure.points):
            self._line(chain, color=self.colours["muted"], linewidth=0.8, linestyle=(0, (1, 2)), zorder=3)
        largest_first = sorted(self.figure.points, key=lambda point: -_point_area(self.figure, point))
        for point in largest_first:
            colour = self.colours[f"line-{_point_colour(self.figure, point)}"]
            marker = _MARKERS[_family(point.path)]
            width = math.sqrt(_point_area(self.figure, point) / _AREA_OF_UNIT[marker])
            self._line(
                [(point.intensity, point.flop_per_s)],
                gid=_point_id(point),
                marker=marker,
                markersize=width,
                markerfacecolor=self.colours["background"] if point.estimated else (colour, 0.45),
                markeredgecolor=colour,
                markeredgewidth=1.6 if point.estimated else 1.1,
                linestyle="none",
                zorder=4,
            )
            x, y = self.at(point.intensity, point.flop_per_s)
            half = width * _REACH_OF_UNIT[marker] + 1
            self.occupied.add_mark(_Box(x - half, y - half, x + half, y + half))

    def _roof_labels(self) -> None:
        """Write every roof's name and value: along it where there is room, else beside it with a leader."""
        groups = _coincident(self.figure.roofs)
        for group in sorted(groups, key=lambda group: group[0].origin != self.figure.ceiling):
            roof = group[0]
            text = f"{', '.join(item.name for item in group)} {roof.value_text}"
            colour, gid = self.colours[f"text-{_colour_name(roof)}"], f"label-{roof.id}"
            start, end = self.at(*roof.line[0]), self.at(*roof.line[1])
            angle = math.atan2(end[1] - start[1], end[0] - start[0])
            cost, place, boxes = self._along(roof, angle, _text_width(text, _SMALL))
            beside = self._beside(start, end, _text_width(text, _SMALL)) if cost > _CROWDED else None
            if beside is not None and beside[0] < cost:
                _, root, box, tip = beside
                self._text((box.left + 1, box.bottom + 2.2), text, _SMALL, colour, gid=gid)
                self._leader(root, tip)
                self.occupied.add_text([box])
            elif cost < math.inf:
                self._text(place, text, _SMALL, colour, gid=gid, rotation=math.degrees(angle))
                self.occupied.add_text(boxes)

    def _along(self, roof: RoofLine, angle: float, width: float) -> tuple[float, Span, list[_Box]]:
        """Return the cheapest place for a text along a roof."""
        best: tuple[float, Span, list[_Box]] = math.inf, (0.0, 0.0), []
        for place, preference in _along(roof, self.at(*roof.line[0]), self.at(*roof.line[1]), width):
            boxes = _boxes_along(place, angle, width, _SMALL)
            cost = self.occupied.cost(boxes) + preference
            if cost < best[0]:
                best = cost, place, boxes
        return best

    def _beside(self, start: Span, end: Span, width: float) -> tuple[float, Span, _Box, Span] | None:
        """Return the cheapest place for a text near a roof: cost, root of the leader, box, tip of the leader."""
        best: tuple[float, Span, _Box, Span] | None = None
        for part in (0.85, 0.65, 0.45, 0.25):
            root = (start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part)
            found = self._cheapest(*root, 0.0, width)
            if found is not None and (best is None or found[0] < best[0]):
                best = found[0], root, found[1], found[2]
        return best

    def _ridges(self) -> None:
        """Mark the ridges of the roof that percentages refer to, and write the intensity of the few that fit."""
        shown = [ridge for ridge in self.figure.ridges if ridge.origin == self.figure.ceiling]
        for ridge in shown:
            x, y = self.at(ridge.intensity, ridge.flop_per_s)
            self._line(
                [(ridge.intensity, ridge.flop_per_s)],
                gid=f"ridge-{ridge.path}-{ridge.level}",
                marker="o",
                markersize=4,
                markerfacecolor=self.colours["background"],
                markeredgecolor=self.colours["muted"],
                linestyle="none",
                zorder=3.5,
            )
            text = f"ridge {format_si(ridge.intensity, '')}"
            for side, dx in (("left", 6.0), ("right", -6.0)):
                width = _text_width(text, _SMALL)
                left = x + dx - (width if side == "right" else 0.0)
                box = _Box(left - 2, y - _SMALL - 5, left + width + 2, y - 4)
                if self.occupied.cost([box]) < 8:
                    self._text((left, y - _SMALL - 3), text, _SMALL, self.colours["muted"])
                    self.occupied.add_text([box])
                    break

    def _point_labels(self) -> None:
        for point, text in _labels(self.figure, self.at):
            x, y = self.at(point.intensity, point.flop_per_s)
            marker = _MARKERS[_family(point.path)]
            radius = math.sqrt(_point_area(self.figure, point) / _AREA_OF_UNIT[marker]) * _REACH_OF_UNIT[marker]
            found = self._cheapest(x, y, radius, _text_width(text, _TEXT))
            if found is None:
                continue
            _, box, tip = found
            self.occupied.add_text([box])
            role = "ink" if self.figure.sized else f"text-{point.level}"
            place = (box.left + 1, box.bottom + 2.2)
            self._text(place, text, _TEXT, self.colours[role], gid=f"label-{_point_id(point)}")
            rim = _towards((x, y), tip, radius)
            if math.dist(rim, tip) > 5:
                self._leader(rim, tip)

    def _cheapest(self, x: float, y: float, radius: float, width: float) -> tuple[float, _Box, Span] | None:
        """Return the cheapest place for a label around a point: its cost, its box, and where its leader ends."""
        best: tuple[float, _Box, Span] | None = None
        for rank, (box, tip) in enumerate(_around(x, y, radius, width + 2, _TEXT + 3)):
            cost = self.occupied.cost([box])
            if cost == math.inf:
                continue
            cost += 0.02 * rank + self.occupied.leader_cost(_towards((x, y), tip, radius + 3), tip)
            if cost < math.inf and (best is None or cost < best[0]):
                best = cost, box, tip
        return best

    def _leader(self, start: Span, end: Span) -> None:
        ends = [(x / self.size[0], y / self.size[1]) for x, y in (start, end)]
        self._line(ends, color=self.colours["muted"], linewidth=0.7, transform=self.ax.transAxes, zorder=3.8)
        self.occupied.add_line((start, end))

    def _text(self, place: Span, text: str, size: float, colour: str, gid: str = "", rotation: float = 0.0) -> None:
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

    def key(self, drawn: Figure, x: float, y: float) -> None:
        """Write one line that says what shapes, dashes and areas mean."""
        handles = [*self._shape_handles(), *self._roof_handles()]
        if handles:
            drawn.legend(
                handles=handles, loc="lower left", bbox_to_anchor=(x, y), ncols=len(handles), frameon=False,
                fontsize=_SMALL, labelcolor=self.colours["muted"], handlelength=2.2, handletextpad=0.5,
                columnspacing=1.4, borderpad=0, borderaxespad=0,
            )  # fmt: skip
        meanings = ["area of a point: share of the time"] if self.figure.sized and _has_shares(self.figure) else []
        meanings += ["hollow: estimated"] if any(point.estimated for point in self.figure.points) else []
        place = (1 - _MARGINS["right"] / _WIDTH, y + 1.5 / _HEIGHT)
        drawn.text(*place, ", ".join(meanings), size=_SMALL, color=self.colours["muted"], ha="right", parse_math=False)

    def _shape_handles(self) -> Iterator[Line2D]:
        from matplotlib.lines import Line2D

        for name in dict.fromkeys(_family(point.path) for point in self.figure.points):
            colour = self.colours[f"line-{name}" if self.figure.sized else "muted"]
            paths = dict.fromkeys(point.path for point in self.figure.points if _family(point.path) == name)
            yield Line2D(
                [], [], linestyle="none", marker=_MARKERS[name], markersize=6, markerfacecolor=(colour, 0.45),
                markeredgecolor=colour, label=", ".join(words.path_name(path) for path in paths),
            )  # fmt: skip

    def _roof_handles(self) -> Iterator[Line2D]:
        from matplotlib.lines import Line2D

        for style, origin in dict.fromkeys((roof.style, roof.origin) for roof in self.figure.roofs):
            label = "roof at clock" if origin == "at-clock" else f"{origin} roof"
            width, dashes = _STROKES[style]
            yield Line2D([], [], color=self.colours["muted"], linestyle=dashes, linewidth=width, label=label)


def _family(path: str) -> str:
    return path.partition(".")[0]


def _colour_name(roof: RoofLine) -> str:
    return roof.level or _family(roof.path or "")


def _point_colour(figure: RooflineFigure, point: FigurePoint) -> str:
    """An overview's points have the colour of their path, a single kernel's that of their level."""
    return _family(point.path) if figure.sized else point.level


def _point_area(figure: RooflineFigure, point: FigurePoint) -> float:
    if not figure.sized:
        return _PLAIN_AREAS[point.level]
    return max(_LEAST_AREA, _FULL_AREA * point.share) if point.share is not None else _PLAIN_AREAS["l2"]


def _has_shares(figure: RooflineFigure) -> bool:
    return any(point.share is not None for point in figure.points)


def _point_id(point: FigurePoint) -> str:
    return f"point-{point.kernel}-{point.path}-{point.level}"


def _chains(points: Sequence[FigurePoint]) -> Iterator[list[Span]]:
    """Yield the places of each kernel that has several points."""
    for kernel in dict.fromkeys(point.kernel for point in points):
        places = [(point.intensity, point.flop_per_s) for point in points if point.kernel == kernel]
        if len(places) > 1:
            yield sorted(places)


def _coincident(roofs: Iterable[RoofLine]) -> list[list[RoofLine]]:
    """Join roofs of one origin, kind and value, which lie on each other, so that they share a label."""
    groups: list[list[RoofLine]] = []
    for roof in roofs:
        for group in groups:
            first = group[0]
            if (first.origin, first.kind) == (roof.origin, roof.kind) and abs(first.value / roof.value - 1) < 0.01:
                group.append(roof)
                break
        else:
            groups.append([roof])
    return groups


def _along(roof: RoofLine, start: Span, end: Span, width: float) -> Iterator[tuple[Span, float]]:
    """Yield places for a label along a line: rated above it, the others rather below; flat ones rather at the right."""
    length = math.dist(start, end)
    if length <= 0:
        return
    along = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)
    above, below = 3.5, -(_SMALL + 1.5)
    steps = 48
    for index in range(steps + 1):
        offset = 4 + (length - width - 8) * index / steps
        if offset < 0:
            continue
        aside = index / steps if roof.kind == "bandwidth" else 1 - index / steps
        for shift in (above, below):
            wrong_side = (shift == above) != (roof.origin != "at-clock")
            place = (
                start[0] + along[0] * offset - along[1] * shift,
                start[1] + along[1] * offset + along[0] * shift,
            )
            yield place, 3 * aside + (1.2 if wrong_side else 0.0)


def _boxes_along(place: Span, angle: float, width: float, size: float) -> list[_Box]:
    """Cover a text that runs at an angle with small upright boxes."""
    if abs(angle) < 1e-6:
        return [_Box(place[0] - 1, place[1] - 2, place[0] + width + 1, place[1] + size - 1)]
    boxes = []
    step = size * 0.5
    count = max(1, math.ceil(width / step))
    for index in range(count + 1):
        offset = width * index / count
        x = place[0] + math.cos(angle) * offset - math.sin(angle) * size * 0.35
        y = place[1] + math.sin(angle) * offset + math.cos(angle) * size * 0.35
        boxes.append(_Box(x - size * 0.42, y - size * 0.42, x + size * 0.42, y + size * 0.42))
    return boxes


def _around(x: float, y: float, radius: float, width: float, height: float) -> Iterator[tuple[_Box, Span]]:
    """Yield label boxes around a point, near ones first, with the end of the leader at the nearest side."""
    for gap in (3.0, 10.0, 20.0, 34.0, 52.0, 74.0, 100.0, 135.0):
        reach = radius + gap
        for degrees in (0, 180, 35, -35, 145, -145, 90, -90, 65, -65, 115, -115, 15, -15, 165, -165):
            turn = math.radians(degrees)
            tip = (x + reach * math.cos(turn), y + reach * math.sin(turn))
            if abs(degrees) in (65, 90, 115):
                left = tip[0] - width / 2
                bottom = tip[1] if degrees > 0 else tip[1] - height
            else:
                left = tip[0] if abs(degrees) < 90 else tip[0] - width
                bottom = tip[1] - height / 2
            yield _Box(left, bottom, left + width, bottom + height), tip


def _towards(start: Span, end: Span, distance: float) -> Span:
    whole = math.dist(start, end)
    part = min(1.0, distance / whole) if whole > 0 else 0.0
    return (start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part)


class _Group(NamedTuple):
    """A label's text and the launches that share it."""

    point: FigurePoint
    others: list[FigurePoint]


def _labels(figure: RooflineFigure, at: Callable[[float, float], Span]) -> Iterator[tuple[FigurePoint, str]]:
    """Yield the points that get a label: the longest few, one for launches of a kernel that lie on each other."""
    mains = [point for point in figure.points if point.main or not figure.sized]
    mains.sort(key=lambda point: -(point.share or 0.0))
    groups: list[_Group] = []
    for point in mains:
        place = at(point.intensity, point.flop_per_s)
        for group in groups:
            first = group.point
            same = (first.label, first.level) == (point.label, point.level)
            if same and math.dist(place, at(first.intensity, first.flop_per_s)) < _SAME_PLACE:
                group.others.append(point)
                break
        else:
            groups.append(_Group(point, []))
    for rank, (point, others) in enumerate(groups[:_LABELLED_KERNELS]):
        share = sum(item.share or 0.0 for item in (point, *others))
        if rank < _ALWAYS_LABELLED or share >= _LEAST_SHARE:
            yield point, _label_text(point, others) + (_fractions([point, *others]) if figure.sized else "")


def _label_text(point: FigurePoint, others: Sequence[FigurePoint]) -> str:
    if not others:
        return _fitted(printable(point.caption), _LABEL_WIDTH, _TEXT)
    if len(others) <= 2:
        tail = ", ".join(f"#{kernel}" for kernel in sorted(item.kernel for item in (point, *others)))
    else:
        tail = f"×{len(others) + 1}"
    return f"{_fitted(printable(point.label), _LABEL_WIDTH, _TEXT)} {tail}"


def _fractions(points: Sequence[FigurePoint]) -> str:
    lowest = format_percent(min(point.fraction_of_roof for point in points))
    highest = format_percent(max(point.fraction_of_roof for point in points))
    return f", {lowest}" if lowest == highest else f", {lowest} to {highest}"


@lru_cache(maxsize=4096)
def _text_width(text: str, size: float) -> float:
    """Return the width of a text in the font that matplotlib ships, whatever the backend."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        properties = FontProperties(family="DejaVu Sans", size=size)
        width, _, _ = text_to_path.get_text_width_height_descent(text, properties, False)
    return float(width)


def _fitted(text: str, width: float, size: float) -> str:
    """Cut the middle out of a text that is too wide."""
    if len(text) <= 400 and _text_width(text, size) <= width:
        return text
    low, high = 0, min(len(text), 400)
    while low < high:
        kept = (low + high + 1) // 2
        if _text_width(_shortened(text, kept), size) <= width:
            low = kept
        else:
            high = kept - 1
    return _shortened(text, low)


def _shortened(text: str, kept: int) -> str:
    if kept >= len(text):
        return text
    head = (2 * kept + 2) // 3
    return f"{text[:head]}…{text[len(text) - (kept - head) :]}"


def _wrapped(notes: Iterable[str], width: float) -> list[str]:
    """Break notes into lines; what a single note needs beyond three lines is cut."""
    lines: list[str] = []
    for note in notes:
        mine = [""]
        for word in printable(note).split(" "):
            longer = f"{mine[-1]} {word}".strip()
            if mine[-1] and _text_width(longer, _SMALL) > width:
                mine.append(word)
            else:
                mine[-1] = longer
        lines += [_fitted(line, width, _SMALL) for line in mine[:3]]
    return lines


_TAG = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r'(\bid="|url\(#|href="#)')


def _finished_svg(svg: str, figure: RooflineFigure, theme: ThemeName) -> str:
    """Make ids unique to the figure, give titles to figure and points, and drop what calls for other files."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, count=1, flags=re.DOTALL)
    prefix = f"{_identifier(figure.id)}-"
    variables = _page_variables() if theme == "page" else {}
    titles = {f"{prefix}{_identifier(_point_id(point))}": _point_title(point) for point in figure.points}
    titles |= {f"{prefix}{_identifier(f'roof-{roof.id}')}": f"{roof.name} {roof.value_text}" for roof in figure.roofs}

    def rewrite(match: re.Match[str]) -> str:
        tag = re.sub(r'(?<=\bid=")[^"]*', lambda found: _identifier(found[0]), match[0])
        tag = _REFERENCE.sub(lambda found: f"{found[0]}{prefix}", tag)
        for sentinel, variable in variables.items():
            tag = tag.replace(sentinel, variable)
        found = re.match(r'<g id="([^"]*)">', tag)
        title = titles.get(found[1]) if found else None
        return f"{tag}<title>{escape(printable(title))}</title>" if title is not None else tag

    body = _TAG.sub(rewrite, body)
    return _with_title(body, figure, prefix, theme)


def _with_title(body: str, figure: RooflineFigure, prefix: str, theme: ThemeName) -> str:
    opening, _, rest = body.partition(">")
    opening = re.sub(r'\s(width|height)="[^"]*pt"', "", opening) if theme == "page" else opening
    title, description = escape(printable(figure.title)), escape(printable(figure.subtitle))
    label = f'role="img" aria-labelledby="{prefix}title {prefix}desc" style="stroke-linejoin:round"'
    head = f'{opening} {label}>\n<title id="{prefix}title">{title}</title><desc id="{prefix}desc">{description}</desc>'
    declaration = "" if theme == "page" else '<?xml version="1.0" encoding="utf-8"?>\n'
    return f"{declaration}{head}{rest}".rstrip() + "\n"


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def _page_variables() -> dict[str, str]:
    light = _colours("light")
    return {sentinel: f"var(--gp-{role}, {light[role]})" for role, sentinel in _colours("page").items()}


def _point_title(point: FigurePoint) -> str:
    """Write what a reader sees when the pointer rests on a point."""
    intensity = format_si(point.intensity, f"{words.work_unit(point.path, per_second=False)}/B")
    share = f", {format_percent(point.share)} of the time" if point.share is not None else ""
    return (
        f"{_shortened(point.label, _TITLE_LENGTH)} #{point.kernel}: {words.path_name(point.path)} "
        f"{format_si(point.flop_per_s, words.work_unit(point.path))} at {intensity} of "
        f"{words.LEVEL_NAMES[point.level]}, {format_percent(point.fraction_of_roof)} of its roof "
        f"{point.ceiling.replace('-', ' ')} ({point.bound} side){share}"
    )
