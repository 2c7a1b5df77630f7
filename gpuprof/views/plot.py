"""Draw plots with matplotlib: areas, lines, marks with numbers, and below the axes what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any
from unicodedata import bidirectional

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, StepPatch
from matplotlib.textpath import text_to_path

from gpuprof.text import cut_middle, printable
from gpuprof.views.plot_values import Area, Extent, Mark, MarkShape, Plot, PlotLine, Sample, Stroke

# In points.
_TEXT = 9.0
_SMALL = 8.0
_TITLE = 12.0
_ROW = 12.0
_AXES_WIDTH = 542.0
_LEFT = 62.0
_RIGHT = 16.0
_TOP = 16.0
_HEADING = 36.0
_BELOW = 50.0
_LEGEND = 38.0
_SHEET_WIDTH = 590.0
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
_AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (2, 0), (0, 2), (-2, 0), (0, -2))

_Colours = Mapping[str, str]
_Box = tuple[float, float, float, float]


def sheet_of(plots: Sequence[Plot], colours: _Colours, *, heading: bool) -> Figure:
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
            start = _RIGHT - _LEFT
            title = fitted(plot.title, _SHEET_WIDTH, _TITLE, "bold")
            _write(ax, (0, 1), (start, 30.0), title, colours["ink"], around=True, size=_TITLE, weight="bold")
            _write(ax, (0, 1), (start, 14.0), plot.subtitle, colours["muted"], around=True)
        upper -= height
    return sheet


def draw(plot: Plot, ax: Axes, colours: _Colours, *, notes: bool = False) -> None:
    """Draw a plot into axes, at values of the axes so that they can be zoomed, and what it means below them."""
    _draw_axes(plot, ax, colours)
    for area in plot.areas:
        _draw_area(ax, area, colours)
    for line in plot.lines:
        width, dashes = _STROKES[line.stroke]
        xs, ys = zip(*line.places, strict=True)
        colour = colours[line.colour]
        ax.add_artist(Line2D(xs, ys, color=colour, linewidth=width, linestyle=dashes, gid=line.id, zorder=2))
    for mark in sorted(plot.marks, key=lambda mark: (not mark.is_faint, not mark.is_hollow, -mark.area)):
        ax.add_artist(_drawn_mark(mark, colours))
    for start, end in plot.arrows:
        ax.add_artist(_drawn_arrow(plot.marks[start], plot.marks[end], colours))
    _label_areas(ax, plot.areas, colours)
    _label_lines(ax, plot.lines, colours)
    _number_marks(ax, plot.marks, colours)
    _explain(plot, ax, colours, notes=notes)


def fitted(text: str, width: float = _SHEET_WIDTH, size: float = _SMALL, weight: str = "normal") -> str:
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


def _draw_axes(plot: Plot, ax: Axes, colours: _Colours) -> None:
    muted = colours["muted"]
    ax.set_facecolor(colours["background"])
    ax.set_xscale("log" if plot.x.is_log else "linear")
    ax.set_yscale("log" if plot.y.is_log else "linear")
    for drawn, axis in ((ax.xaxis, plot.x), (ax.yaxis, plot.y)):
        drawn.set_label_text(axis.name, size=_TEXT, color=muted)
        drawn.set_ticks([value for value, _ in axis.ticks], labels=[text for _, text in axis.ticks])
    ax.set_xlim(*plot.x.ends)
    ax.set_ylim(*plot.y.ends)
    ax.minorticks_off()
    ax.tick_params(length=0, labelsize=_SMALL, labelcolor=muted, pad=5)
    ax.grid(True, color=colours["grid"], linewidth=0.7)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set(visible=side in {"left", "bottom"}, color=muted, linewidth=0.8)


def _draw_area(ax: Axes, area: Area, colours: _Colours) -> None:
    colour = colours[area.colour]
    look: dict[str, Any] = {"facecolor": colour, "edgecolor": "none"}
    if area.is_hatched:
        look = {"facecolor": "none", "edgecolor": colour, "hatch": "////", "linewidth": 0.0}
    ax.add_artist(StepPatch(area.tops, area.edges, baseline=area.base, fill=True, gid=area.id, zorder=2, **look))


def _drawn_mark(mark: Mark, colours: _Colours) -> Line2D:
    colour = colours[mark.colour]
    opacity = _FAINT if mark.is_faint else 1.0
    fill = (colours["background"], opacity) if mark.is_hollow else (colour, opacity * _FILL)
    return Line2D(
        [mark.place[0]], [mark.place[1]], gid=mark.id, linestyle="none", marker=mark.shape,
        markersize=2 * _reach(mark), markeredgewidth=1.6 if mark.is_hollow else 1.1, markeredgecolor=(colour, opacity),
        markerfacecolor=fill, zorder=4,
    )  # fmt: skip


def _reach(mark: Mark) -> float:
    """Return half the width of a mark, such that marks of all shapes have the area that they should."""
    return math.sqrt(mark.area / _AREA_OF_UNIT[mark.shape]) / 2


def _drawn_arrow(start: Mark, end: Mark, colours: _Colours) -> FancyArrowPatch:
    return FancyArrowPatch(
        start.place, end.place, arrowstyle="-|>", mutation_scale=8, color=colours["ink"], linewidth=1.2,
        shrinkA=_reach(start), shrinkB=_reach(end), zorder=5,
    )  # fmt: skip


def _label_areas(ax: Axes, areas: Sequence[Area], colours: _Colours) -> None:
    """Write the texts of areas above them, the widest area first; one that has no room is left out."""
    taken: list[Extent] = []
    width, _ = _at(ax, (ax.get_xlim()[1], 0.0))
    for area in sorted(areas, key=lambda area: area.edges[0] - area.edges[-1]):
        half = _LETTER * len(area.label) / 2
        middle = (area.edges[0] + area.edges[-1]) / 2
        x, _ = _at(ax, (middle, 0.0))
        shown = min(max(x, half), width - half)
        if area.label and all(shown + half < start or end < shown - half for start, end in taken):
            taken.append((shown - half, shown + half))
            place = (middle, area.tops[0])
            _write(ax, place, (shown - x, 3.0), area.label, colours["muted"], ha="center", va="bottom")


def _label_lines(ax: Axes, lines: Sequence[PlotLine], colours: _Colours) -> None:
    """Write the texts of slopes along their lower ends, and those of flat lines above their right ends.

    The text of a flat line moves up if that of a lower one needs its room.
    """
    ground = {"facecolor": colours["background"], "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
    look: dict[str, Any] = {"bbox": ground, "zorder": 3}
    least = 0.0
    for line in sorted(lines, key=lambda line: line.places[-1][1]):
        if not line.label:
            continue
        colour = colours[line.colour.replace("line-", "text-")]
        x0, y0 = _at(ax, line.places[0])
        x1, y1 = _at(ax, line.places[-1])
        if line.places[0][1] == line.places[-1][1]:
            up = max(3.0, least - y1)
            least = y1 + up + _SMALL + 2.0
            _write(ax, line.places[-1], (-2.0, up), line.label, colour, ha="right", va="bottom", **look)
            continue
        angle = math.atan2(y1 - y0, x1 - x0)
        offset = (8.0 * math.cos(angle) - 4.0 * math.sin(angle), 8.0 * math.sin(angle) + 4.0 * math.cos(angle))
        turn: dict[str, Any] = {"rotation": math.degrees(angle), "rotation_mode": "anchor"}
        _write(ax, line.places[0], offset, line.label, colour, va="bottom", **look, **turn)


def _number_marks(ax: Axes, marks: Sequence[Mark], colours: _Colours) -> None:
    """Write numbers beside their marks, where they hide each other and numbered marks least."""
    numbered = [mark for mark in marks if mark.number]
    taken: list[_Box] = [(*_at(ax, mark.place), _reach(mark), _reach(mark)) for mark in numbered]
    for mark in numbered:
        right, up = _best_offset(ax, mark, taken)
        x, y = _at(ax, mark.place)
        taken.append((x + right, y + up, _LETTER * len(mark.number) / 2, _SMALL / 2))
        _write(ax, mark.place, (right, up), mark.number, colours["ink"], weight="bold", ha="center", va="center")


def _best_offset(ax: Axes, mark: Mark, taken: Sequence[_Box]) -> Extent:
    """Return how far a number should be from the middle of its mark to hide least, in points."""
    width, height = _at(ax, (ax.get_xlim()[1], ax.get_ylim()[1]))
    x, y = _at(ax, mark.place)
    half = _LETTER * len(mark.number) / 2 + 2
    tried: list[tuple[bool, int, int, Extent]] = []
    for right, up in _AROUND:
        offset = (right * (_reach(mark) + half), up * (_reach(mark) + _SMALL / 2))
        box = (x + offset[0], y + offset[1], half, _SMALL / 2)
        is_outside = not (half < box[0] < width - half and _SMALL < box[1] < height - _SMALL)
        tried.append((is_outside, round(sum(_overlap(box, other) for other in taken)), len(tried), offset))
    return min(tried)[-1]


def _overlap(box: _Box, other: _Box) -> float:
    """Return the area that two boxes have in common, each given by its middle and half its size."""
    width = box[2] + other[2] - abs(box[0] - other[0])
    height = box[3] + other[3] - abs(box[1] - other[1])
    return max(0.0, width) * max(0.0, height)


def _at(ax: Axes, place: Extent) -> Extent:
    """Return where a place is, in points from the lower left corner of the axes."""
    x, y = (ax.transData.transform(place) - ax.transAxes.transform((0.0, 0.0))) * 72 / ax.figure.dpi
    return float(x), float(y)


def _explain(plot: Plot, ax: Axes, colours: _Colours, *, notes: bool) -> None:
    """Draw what samples mean, and write the key and the notes, below the axes."""
    start = _RIGHT - _LEFT
    width, height = _at(ax, (ax.get_xlim()[1], ax.get_ylim()[1]))
    if plot.samples:
        handles = [_drawn_sample(sample, plot.columns, colours) for sample in plot.samples]
        ax.legend(
            handles=handles, ncols=plot.columns, loc="upper left", bbox_to_anchor=(start / width, -_LEGEND / height),
            fontsize=_SMALL, labelcolor=colours["muted"], frameon=False, borderpad=0.0, borderaxespad=0.0,
            handlelength=2.2, labelspacing=0.5, columnspacing=1.4,
        )  # fmt: skip
    y = -_LEGEND - _ROW * _legend_rows(plot)
    for line in _lines_below(plot, notes=notes):
        _write(ax, (0, 0), (start, y), line, colours["muted"], around=True, va="top")
        y -= _ROW


def _drawn_sample(sample: Sample, columns: int, colours: _Colours) -> Line2D:
    colour = colours[sample.colour]
    text = fitted(sample.meaning, _SHEET_WIDTH / columns - _SAMPLE)
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
    return [line for text in texts for line in wrap(printable(text), _LETTERS, drop_whitespace=False)]


def _write(
    ax: Axes, place: Extent, offset: Extent, text: str, colour: str, *, around: bool = False, **options: Any
) -> None:
    """Write a text so many points from a place in the axes, or from a corner of them if it stands `around` them."""
    look = {"size": _SMALL, "color": colour, "parse_math": False, "annotation_clip": False, "zorder": 6, **options}
    where = "axes fraction" if around else "data"
    ax.annotate(fitted(text), place, offset, xycoords=where, textcoords="offset points", **look)
