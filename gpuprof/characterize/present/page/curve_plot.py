"""A figure of curves: points of several series, the law that they should follow, and values found on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from gpuprof.text import cut_middle, printable
from gpuprof.views.plot import LETTER, Colours, Drawing, Extent, backing, points_at, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In points.
_WIDTH, _HEIGHT = 340.0, 150.0
_ROW = 11.0
# Letters of a unit at its axis.
_UNIT = 30
# More points than these get no title of their own.
_MOST_TITLES = 300
_COLOURS = ("line-l1", "line-dram", "line-l2", "line-compute", "line-latency", "ink", "line-unknown")
_SHAPES = "os^D"
# A wider axis has no room for ticks at 1, 2 and 5.
_NARROW = 300.0
_MOST_TICKS = 7
_LINEAR_STEPS = 5


class CurveAxis(Struct, frozen=True):
    """An axis from `low` to `high`, logarithmic to `base`, linear if that is 0.

    `unit` is empty if it stands at each tick. `write_tick` is a formatter of matplotlib.
    """

    unit: str
    write_tick: Callable[[float, object], str]
    low: float
    high: float
    base: int = 0


class PlottedSeries(Struct, frozen=True):
    """The points of a curve, a title for each, and the law that they should follow, if any: as points and in words.

    Points that were fitted are not joined, so that the law is seen between them.
    """

    label: str
    points: tuple[Extent, ...]
    titles: tuple[str, ...]
    law: tuple[Extent, ...] = ()
    law_text: str = ""
    is_joined: bool = True


class ReferenceLine(NamedTuple):
    """A line across the figure at a value that was found on the curve: a capacity, a knee, a peak."""

    value: float
    text: str


class CurvePlot(Struct, frozen=True):
    """Series on the same axes. `columns` are values of x, and `levels` values of y."""

    x: CurveAxis
    y: CurveAxis
    series: Sequence[PlottedSeries]
    columns: Sequence[ReferenceLine]
    levels: Sequence[ReferenceLine]


def curve_drawing(plot: CurvePlot, name: str, title: str) -> Drawing:
    """Return the drawing of curves. More series than there are colours are drawn as a cloud."""
    return Drawing(id=name, title=title, draw=partial(_draw, plot), height=_HEIGHT, width=_WIDTH)


def _draw(plot: CurvePlot, ax: Axes, colours: Colours) -> None:
    xlabel, ylabel = (cut_middle(printable(axis.unit), _UNIT) for axis in (plot.x, plot.y))
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.set(xlim=(plot.x.low, plot.x.high), ylim=(plot.y.low, plot.y.high))
    _set_scales(plot, ax)
    is_cloud = len(plot.series) > len(_COLOURS)
    is_titled = sum(len(line.points) for line in plot.series) <= _MOST_TITLES
    for number, line in enumerate(plot.series):
        colour = colours[_COLOURS[0 if is_cloud else number]]
        if line.law:
            law_colour = colours["ink"] if line.is_joined or is_cloud else colour
            ax.plot(*zip(*line.law, strict=True), ":", color=law_colour, gid=f"law-{number}", label=line.law_text)
        look: dict[str, Any] = {
            "color": colour,
            "linestyle": "-" if line.is_joined and not is_cloud else "none",
            "linewidth": 1.2,
            "marker": "o" if is_cloud else _SHAPES[number % len(_SHAPES)],
            "markersize": 3.0 if is_cloud else 4.0,
            "markeredgecolor": colours["background"],
            "markeredgewidth": 0.5,
            "clip_on": False,
        }
        title = "\n".join(map(printable, line.titles)) if is_titled and not is_cloud else printable(line.label)
        ax.plot(*zip(*line.points, strict=True), **look, gid=f"series-{number}", label=title)
        if len(plot.series) > 1 and not is_cloud:
            ax.plot([], [], **look, label=line.label)
    _draw_references(plot, ax, colours)


def _set_scales(plot: CurvePlot, ax: Axes) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator

    for axis, drawn, set_scale in ((plot.x, ax.xaxis, ax.set_xscale), (plot.y, ax.yaxis, ax.set_yscale)):
        if axis.base:
            set_scale("log", base=axis.base)
            is_narrow = axis.base == 10 and axis.high < _NARROW * axis.low
            factors = (1.0, 2.0, 5.0) if is_narrow else (1.0,)
            drawn.set_major_locator(LogLocator(axis.base, factors, numticks=_MOST_TICKS))
        else:
            drawn.set_major_locator(MaxNLocator(_LINEAR_STEPS, steps=[1, 2, 5, 10]))
        drawn.set_major_formatter(axis.write_tick)


def _draw_references(plot: CurvePlot, ax: Axes, colours: Colours) -> None:
    """Draw lines at values with their texts. Those above the axes that would meet stand in rows."""
    colour = colours["ink"]
    look: dict[str, Any] = {"color": colour, "linestyle": "--", "linewidth": 0.9, "zorder": 1.5}
    written: dict[str, Any] = {"weight": "bold", "bbox": backing(colours), "zorder": 3}
    taken, row = -math.inf, 0
    for number, (value, text) in enumerate(sorted(plot.columns)):
        x, _ = points_at(ax, (value, plot.y.low))
        reach = LETTER * len(text) / 2
        row = row + 1 if x - reach < taken else 0
        taken = max(taken, x + reach)
        rise = 3.0 + _ROW * row
        ax.axvline(value, 0.0, 1.0 + rise / _HEIGHT, **look, clip_on=False, gid=f"column-{number}", label=text)
        write(ax, (value, 1.0), (0.0, rise), text, colour, xycoords=ax.get_xaxis_transform(), ha="center", **written)
    for number, (value, text) in enumerate(plot.levels):
        ax.axhline(value, **look, gid=f"level-{number}", label=text)
        write(ax, (0.0, value), (4.0, 4.0), text, colour, xycoords=ax.get_yaxis_transform(), **written)
