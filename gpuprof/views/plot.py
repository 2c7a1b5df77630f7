"""Draw plots with matplotlib: areas, lines, marks with numbers, and below the axes what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple
from unicodedata import bidirectional

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, StepPatch
from matplotlib.textpath import text_to_path

from gpuprof.text import cut_middle, printable
from gpuprof.views.plot_values import Area, Axis, Extent, Mark, MarkShape, Plot, PlotLine, Sample, Stroke

_TEXT = 9.0
_SMALL = 8.0
_TITLE = 12.0
_AXES_WIDTH = 542.0
# Around the axes, in points: what ticks and names of axes need.
_LEFT = 62.0
_RIGHT = 16.0
_TOP = 16.0
_HEADING = 36.0
_BELOW = 50.0
_LEGEND = 38.0
_ROW = 12.0
_MARGIN = 16.0
_SHEET_WIDTH = 590.0
# What the sample of a legend takes, and the width of a usual letter.
_SAMPLE = 36.0
_LETTER = 5.0
# Letters in a line, and of a text.
_LETTERS = 120
_MOST_LETTERS = 400
_LEFT_TO_RIGHT = "\u200e"
_FILL = 0.45
_FAINT = 0.35
# Width and dashes of a line.
_STROKES: Mapping[Stroke, tuple[float, Any]] = {
    "solid": (1.5, "solid"),
    "dashed": (1.5, (0.0, (4.0, 2.5))),
    "bold": (2.8, "solid"),
    "dotted": (0.8, (0.0, (1.0, 2.0))),
}
_AREA_OF_UNIT: Mapping[MarkShape, float] = {"s": 1.0, "o": math.pi / 4, "^": 0.5, "v": 0.5, "D": 1.0}
# Where a number is tried, in directions from the middle of its mark.
_AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def sheet_of(plots: Sequence[Plot], colours: Mapping[str, str], *, heading: bool) -> Figure:
    """Return plots below one another, with what they mean; `heading`: with titles and notes, too."""
    top = _TOP + _HEADING if heading else _TOP
    heights = []
    for plot in plots:
        rows = _legend_rows(plot) + len(_lines_below(plot, notes=heading))
        heights.append(top + plot.height + _BELOW + _ROW * rows)
    width = _LEFT + _AXES_WIDTH + _RIGHT
    whole = sum(heights)
    sheet = Figure(figsize=(width / 72, whole / 72), dpi=72, facecolor=colours["background"])
    upper = whole
    for plot, height in zip(plots, heights, strict=True):
        bottom = upper - top - plot.height
        ax = sheet.add_axes((_LEFT / width, bottom / whole, _AXES_WIDTH / width, plot.height / whole))
        draw(plot, ax, colours, notes=heading)
        if heading:
            left = _MARGIN / width
            title = _fitted(plot.title, _SHEET_WIDTH, _TITLE, "bold")
            _write(sheet, (left, (upper - 24.0) / whole), title, _TITLE, colours["ink"], weight="bold")
            _write(sheet, (left, (upper - 40.0) / whole), _fitted(plot.subtitle), _SMALL, colours["muted"])
        upper -= height
    return sheet


def draw(plot: Plot, ax: Axes, colours: Mapping[str, str], *, notes: bool = False) -> None:
    """Draw a plot into axes, at values of the axes so that they can be zoomed, and what it means below them."""
    _draw_axes(plot, ax, colours)
    frame = _Frame.of(plot, ax)
    for area in plot.areas:
        _draw_area(ax, area, colours)
    _label_areas(ax, plot.areas, colours, frame)
    for line in plot.lines:
        _draw_line(ax, line, colours)
    _label_lines(ax, plot.lines, colours, frame)
    for mark in sorted(plot.marks, key=lambda mark: (not mark.is_faint, not mark.is_hollow, -mark.area)):
        _draw_mark(ax, mark, colours)
    for start, end in plot.arrows:
        _draw_arrow(ax, plot.marks[start], plot.marks[end], colours)
    _number_marks(ax, plot.marks, colours, frame)
    _draw_below(plot, ax, colours, frame, notes=notes)


class _Frame(NamedTuple):
    """The size of axes in points, and their scales."""

    size: Extent
    x: Axis
    y: Axis

    @classmethod
    def of(cls, plot: Plot, ax: Axes) -> _Frame:
        window = ax.get_window_extent()
        scale = 72 / ax.figure.dpi
        return cls((window.width * scale, window.height * scale), plot.x, plot.y)

    def at(self, place: Extent) -> Extent:
        """Return where a place is, in points from the lower left corner."""
        return self.size[0] * _part(self.x, place[0]), self.size[1] * _part(self.y, place[1])

    def value(self, point: Extent) -> Extent:
        """Return the values at a place in points."""
        return _value(self.x, point[0] / self.size[0]), _value(self.y, point[1] / self.size[1])


def _part(axis: Axis, value: float) -> float:
    low, high = axis.ends
    if axis.is_log:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _value(axis: Axis, part: float) -> float:
    low, high = axis.ends
    if axis.is_log:
        return float(low * (high / low) ** part)
    return low + part * (high - low)


def _draw_axes(plot: Plot, ax: Axes, colours: Mapping[str, str]) -> None:
    muted = colours["muted"]
    ax.set_facecolor(colours["background"])
    ax.set_xscale("log" if plot.x.is_log else "linear")
    ax.set_yscale("log" if plot.y.is_log else "linear")
    for drawn, axis in ((ax.xaxis, plot.x), (ax.yaxis, plot.y)):
        drawn.set_label_text(axis.name, size=_TEXT, color=muted, parse_math=False)
        drawn.set_ticks([value for value, _ in axis.ticks], labels=[text for _, text in axis.ticks], parse_math=False)
    ax.set_xlim(*plot.x.ends)
    ax.set_ylim(*plot.y.ends)
    ax.minorticks_off()
    ax.tick_params(length=0, labelsize=_SMALL, labelcolor=muted, pad=5)
    ax.grid(True, color=colours["grid"], linewidth=0.7)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set(visible=side in {"left", "bottom"}, color=muted, linewidth=0.8)


def _draw_area(ax: Axes, area: Area, colours: Mapping[str, str]) -> None:
    colour = colours[area.colour]
    options: dict[str, Any] = {"facecolor": colour, "edgecolor": "none"}
    if area.is_hatched:
        options = {"facecolor": "none", "edgecolor": colour, "hatch": "////", "linewidth": 0.0}
    ax.add_artist(StepPatch(area.tops, area.edges, baseline=area.base, fill=True, gid=area.id, zorder=2, **options))


def _label_areas(ax: Axes, areas: Sequence[Area], colours: Mapping[str, str], frame: _Frame) -> None:
    """Write the texts of areas above them, the widest area first; one that has no room is left out."""
    taken: list[Extent] = []
    labelled = [area for area in areas if area.label]
    for area in sorted(labelled, key=lambda area: area.edges[0] - area.edges[-1]):
        half = _LETTER * len(area.label) / 2
        left, _ = frame.at((area.edges[0], 0.0))
        right, top = frame.at((area.edges[-1], area.tops[0]))
        middle = min(max((left + right) / 2, half), frame.size[0] - half)
        if all(middle + half < start or end < middle - half for start, end in taken):
            taken.append((middle - half, middle + half))
            _write(
                ax,
                frame.value((middle, top + 3.0)),
                _fitted(area.label),
                _SMALL,
                colours["muted"],
                ha="center",
                va="bottom",
            )


def _draw_line(ax: Axes, line: PlotLine, colours: Mapping[str, str]) -> None:
    width, dashes = _STROKES[line.stroke]
    xs = [place[0] for place in line.places]
    ys = [place[1] for place in line.places]
    ax.add_artist(Line2D(xs, ys, color=colours[line.colour], linewidth=width, linestyle=dashes, gid=line.id, zorder=2))


def _label_lines(ax: Axes, lines: Sequence[PlotLine], colours: Mapping[str, str], frame: _Frame) -> None:
    """Write the texts of slopes along their lower ends, and those of flat lines above their right ends.

    The text of a flat line moves up if that of a lower one needs its room.
    """
    ground = {"facecolor": colours["background"], "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
    least = 0.0
    for line in sorted(lines, key=lambda line: line.places[-1][1]):
        if not line.label:
            continue
        colour = colours[line.colour.replace("line-", "text-")]
        x0, y0 = frame.at(line.places[0])
        x1, y1 = frame.at(line.places[-1])
        angle = math.atan2(y1 - y0, x1 - x0)
        if angle:
            x = x0 + 8.0 * math.cos(angle) - 4.0 * math.sin(angle)
            y = y0 + 8.0 * math.sin(angle) + 4.0 * math.cos(angle)
        else:
            x = x1 - 2.0
            y = max(y1 + 3.0, least)
            least = y + _SMALL + 2.0
        _write(
            ax, frame.value((x, y)), _fitted(line.label), _SMALL, colour, ha="left" if angle else "right", va="bottom",
            rotation=math.degrees(angle), rotation_mode="anchor", bbox=ground,
        )  # fmt: skip


def _draw_mark(ax: Axes, mark: Mark, colours: Mapping[str, str]) -> None:
    colour = colours[mark.colour]
    opacity = _FAINT if mark.is_faint else 1.0
    fill = (colours["background"], opacity) if mark.is_hollow else (colour, opacity * _FILL)
    ax.add_artist(
        Line2D(
            [mark.place[0]], [mark.place[1]], gid=mark.id, linestyle="none", marker=mark.shape,
            markersize=2 * _reach(mark), markeredgewidth=1.6 if mark.is_hollow else 1.1,
            markeredgecolor=(colour, opacity), markerfacecolor=fill, zorder=4,
        )
    )  # fmt: skip


def _reach(mark: Mark) -> float:
    """Return half the width of a mark, such that marks of all shapes have the area that they should."""
    return math.sqrt(mark.area / _AREA_OF_UNIT[mark.shape]) / 2


def _draw_arrow(ax: Axes, start: Mark, end: Mark, colours: Mapping[str, str]) -> None:
    ax.add_artist(
        FancyArrowPatch(
            start.place, end.place, arrowstyle="-|>", mutation_scale=8, color=colours["ink"], linewidth=1.2,
            shrinkA=_reach(start), shrinkB=_reach(end), zorder=5,
        )
    )  # fmt: skip


_Box = tuple[float, float, float, float]


def _number_marks(ax: Axes, marks: Sequence[Mark], colours: Mapping[str, str], frame: _Frame) -> None:
    """Write numbers beside their marks, where they hide each other and numbered marks least."""
    numbered = [mark for mark in marks if mark.number]
    taken: list[_Box] = [(*frame.at(mark.place), _reach(mark), _reach(mark)) for mark in numbered]
    for mark in numbered:
        box = _free_box(mark, taken, frame)
        taken.append(box)
        _write(
            ax,
            frame.value(box[:2]),
            _fitted(mark.number),
            _SMALL,
            colours["ink"],
            weight="bold",
            ha="center",
            va="center",
        )


def _free_box(mark: Mark, taken: Sequence[_Box], frame: _Frame) -> _Box:
    """Return the middle and half the size of the best place for a number around its mark, in points."""
    x, y = frame.at(mark.place)
    width = _LETTER * len(mark.number) / 2 + 2
    height = _SMALL / 2
    boxes: list[tuple[bool, float, int, _Box]] = []
    for distance in (0.0, 8.0, 16.0):
        reach = _reach(mark) + distance
        for right, up in _AROUND:
            box = (x + right * (reach + width), y + up * (reach + height), width, height)
            hidden = sum(_overlap(box, other) for other in taken)
            is_outside = not (width < box[0] < frame.size[0] - width and height < box[1] < frame.size[1] - height)
            boxes.append((is_outside, hidden + distance, len(boxes), box))
    return min(boxes)[-1]


def _overlap(box: _Box, other: _Box) -> float:
    """Return the area that two boxes have in common, in square points."""
    width = box[2] + other[2] - abs(box[0] - other[0])
    height = box[3] + other[3] - abs(box[1] - other[1])
    return max(0.0, width) * max(0.0, height)


def _draw_below(plot: Plot, ax: Axes, colours: Mapping[str, str], frame: _Frame, *, notes: bool) -> None:
    """Draw what samples mean, and write the key and the notes, below the axes."""
    left = (_MARGIN - _LEFT) / frame.size[0]
    if plot.samples:
        handles = [_drawn_sample(sample, plot.columns, colours) for sample in plot.samples]
        ax.legend(
            handles=handles, ncols=plot.columns, loc="upper left", bbox_to_anchor=(left, -_LEGEND / frame.size[1]),
            fontsize=_SMALL, labelcolor=colours["muted"], frameon=False, borderpad=0.0, borderaxespad=0.0,
            handlelength=2.2, labelspacing=0.5, columnspacing=1.4,
        )  # fmt: skip
    y = -_LEGEND - _ROW * _legend_rows(plot)
    for line in _lines_below(plot, notes=notes):
        place = (left, y / frame.size[1])
        _write(ax, place, line, _SMALL, colours["muted"], va="top", transform=ax.transAxes)
        y -= _ROW


def _drawn_sample(sample: Sample, columns: int, colours: Mapping[str, str]) -> Line2D:
    colour = colours[sample.colour]
    text = _fitted(sample.meaning, _SHEET_WIDTH / columns - _SAMPLE)
    if sample.stroke is not None:
        width, dashes = _STROKES[sample.stroke]
        return Line2D([], [], color=colour, linewidth=width, linestyle=dashes, label=text)
    return Line2D(
        [], [], linestyle="none", marker=sample.shape, markersize=6.0, markerfacecolor=(colour, _FILL),
        markeredgecolor=colour, label=text,
    )  # fmt: skip


def _legend_rows(plot: Plot) -> int:
    return math.ceil(len(plot.samples) / plot.columns)


def _lines_below(plot: Plot, *, notes: bool) -> list[str]:
    texts = [f"{number}:  {meaning}" for number, meaning in plot.key]
    if notes:
        texts += plot.notes
    return [_fitted(line) for text in texts for line in wrap(printable(text), _LETTERS, drop_whitespace=False)]


def _write(parent: Axes | Figure, place: Extent, text: str, size: float, colour: str, **options: Any) -> None:
    parent.text(*place, text, size=size, color=colour, parse_math=False, zorder=6, **options)


def _fitted(text: str, width: float = _SHEET_WIDTH, size: float = _SMALL, weight: str = "normal") -> str:
    """Return a text that is safe to show, its middle cut out if it is wider than so many points."""
    text = cut_middle(printable(text), _MOST_LETTERS)
    font = FontProperties(size=size, weight=weight)
    while len(text) > 1:
        drawn, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
        if drawn <= width:
            break
        text = cut_middle(text, int(len(text) * width / drawn) - 1)
    # A text keeps the order of English if a name in it runs from right to left.
    is_reversed = any(bidirectional(letter) in ("R", "AL") for letter in text)
    return _LEFT_TO_RIGHT + text if is_reversed else text
