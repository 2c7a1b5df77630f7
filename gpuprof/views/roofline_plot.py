"""A roofline as a drawing: its ceilings, marks with numbers, and legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from gpuprof.model.path_names import path_name
from gpuprof.text import cut_middle
from gpuprof.units import format_percent, format_si
from gpuprof.views.kernel_limits import point_area
from gpuprof.views.plot import (
    LETTER,
    Colours,
    Drawing,
    Extent,
    backing,
    explain_limits,
    mark,
    number_marks,
    points_at,
    spots_between,
    write,
)
from gpuprof.views.roofline_values import RoofLine, Roofline, RooflinePlace
from gpuprof.words.profile_values import LEVEL_NAMES, intensity_text, rate_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHAPES = {"fp64": "s", "fp32": "o", "fp16": "^", "int32": "v", "tensor": "D"}
_STROKES = {"rated": "--", "at-clock": "-", "measured": "-.", "base": "--", "new": "-"}
_FAINT = 0.35
_ROW = 11.0
# In points: a text closer than this to the middle of a mark cannot be read.
_NEAR = 18.0
_NAME = 100


def roofline_drawing(figure: Roofline) -> Drawing:
    """Return the drawing of a roofline. The number of a mark is the id of its kernel, or the level of a single one."""
    keys = dict.fromkeys(f"{_number(figure, point)}: {point.key}" for point in figure.points if point.key)
    return Drawing(
        id=figure.id,
        title=figure.title,
        subtitle=figure.subtitle,
        draw=partial(_draw, figure),
        notes=(*keys, *figure.notes),
    )


def _draw(figure: Roofline, ax: Axes, colours: Colours) -> None:
    traffic = f"{LEVEL_NAMES[figure.levels[0]]} traffic" if len(figure.levels) == 1 else "traffic at each level"
    ax.set(xscale="log", yscale="log", xlim=figure.intensity_range, ylim=figure.flop_per_s_range)
    ax.set_xlabel(f"arithmetic intensity, {figure.unit} per byte of {traffic}")
    ax.set_ylabel(f"performance, {figure.unit}/s")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter(lambda value, _: format_si(value, "", 1))
    taken = _draw_roofs(figure, ax, colours)
    numbers = []
    for point in sorted(figure.points, key=lambda point: not point.faint):
        side = f"-{point.side}" if point.side else ""
        area = point_area(point.share if figure.sized else None)
        mark(
            ax,
            colours[f"line-{point.colour if figure.sized else point.level}"],
            _hover_text(point),
            _place(point),
            f"point-{point.kernel}-{point.path}-{point.level}{side}",
            shape=_shape(point.path),
            area=area,
            is_hollow=point.is_hollow,
            opacity=_FAINT if point.faint else 1.0,
        )
        if point.key:
            numbers.append((_place(point), area, _number(figure, point)))
    for start, end in figure.arrows:
        look = {"arrowstyle": "-|>", "color": colours["ink"], "shrinkA": 5.0, "shrinkB": 5.0}
        ends = _place(figure.points[start]), _place(figure.points[end])
        ax.annotate("", ends[1], ends[0], arrowprops=look, zorder=5)
        taken += spots_between(*(points_at(ax, place) for place in ends))
    number_marks(ax, colours, numbers, taken)
    _draw_samples(figure, ax, colours)


def _draw_roofs(figure: Roofline, ax: Axes, colours: Colours) -> list[Extent]:
    """Draw ceilings. Those of one path or level have one text, at the highest of them.

    Return where marks and texts are, in points from the lower left corner of the axes.
    """
    taken = [points_at(ax, _place(point)) for point in figure.points]
    roofs_of: dict[str, list[RoofLine]] = {}
    for roof in figure.roofs:
        colour = colours[f"line-{roof.level or 'compute'}"]
        name = f"roof-{roof.id.replace('/', '-')}"
        label = f"{roof.name} {roof.value_text}"
        ax.plot(*zip(*roof.line, strict=True), _STROKES[roof.origin], color=colour, gid=name, label=label)
        roofs_of.setdefault(roof.name, []).append(roof)
    look = {
        "bbox": backing(colours),
        "zorder": 3,
        "va": "bottom",
    }
    least = 0.0
    for name, roofs in sorted(roofs_of.items(), key=lambda item: max(roof.value for roof in item[1])):
        text = f"{name} {', '.join(roof.value_text for roof in roofs)}"
        highest = max(roofs, key=lambda roof: roof.value)
        start, end = highest.line
        x0, y0 = points_at(ax, start)
        x1, y1 = points_at(ax, end)
        if highest.level is not None:
            slope = math.atan2(y1 - y0, x1 - x0)
            along = _free_stretch((x0, y0), (x1, y1), LETTER * len(text), taken)
            offset = (along[0][0] - x0 + 6.0, along[0][1] - y0 + 8.0)
            turned = {"rotation": math.degrees(slope), "rotation_mode": "anchor"}
            write(ax, start, offset, text, colours["muted"], **turned, **look)
            taken += along
        else:
            # The text moves up if that of a lower ceiling needs its room.
            up = max(3.0, least - y1)
            least = y1 + up + _ROW
            write(ax, end, (-2.0, up), text, colours["muted"], ha="right", **look)
            taken += spots_between((x1 - LETTER * len(text), y1 + up + 4.0), (x1, y1 + up + 4.0))
    return taken


def _free_stretch(start: Extent, end: Extent, length: float, taken: Sequence[Extent]) -> list[Extent]:
    """Return the first stretch of a line that is `length` long and has nothing near it, or else the first of all.

    All values are in points.
    """
    spots = spots_between(start, end)
    size = round(length / LETTER) + 1
    for first in range(max(1, len(spots) - size)):
        stretch = spots[first : first + size]
        if all(math.dist(spot, other) >= _NEAR for spot in stretch for other in taken):
            return stretch
    return spots[:size]


def _draw_samples(figure: Roofline, ax: Axes, colours: Colours) -> None:
    """Draw the legend of colours, shapes and strokes, and a line through the points of each kernel."""
    for kernel, points in groupby(figure.points, lambda point: point.kernel):
        places = sorted(_place(point) for point in points if not point.side)
        if len(places) > 1:
            ax.plot(*zip(*places, strict=True), ":", color=colours["muted"], gid=f"chain-{kernel}", label="")
    if figure.sized:
        explain_limits(ax, colours, [(point.colour, point.limit) for point in figure.points])
    for path in dict.fromkeys(point.path for point in figure.points):
        mark(ax, colours["muted"], path_name(path), shape=_shape(path))
    for origin in dict.fromkeys(roof.origin for roof in figure.roofs):
        ax.plot([], [], _STROKES[origin], color=colours["muted"], label=f"{origin} ceiling")


def _place(point: RooflinePlace) -> Extent:
    return point.intensity, point.flop_per_s


def _number(figure: Roofline, point: RooflinePlace) -> str:
    return str(point.kernel) if figure.sized else LEVEL_NAMES[point.level]


def _shape(path: str) -> str:
    return _SHAPES[path.partition(".")[0]]


def _hover_text(point: RooflinePlace) -> str:
    """Return the tooltip of a point."""
    source = f" in {point.source}" if point.source else ""
    share = f", {format_percent(point.share)} of the time" if point.share is not None else ""
    return (
        f"{cut_middle(point.label, _NAME)} #{point.kernel}{source}: {path_name(point.path)} "
        f"{rate_text(point.path, point.flop_per_s)} at {intensity_text(point.path, point.intensity)} of "
        f"{LEVEL_NAMES[point.level]}, {format_percent(point.fraction_of_roof)} of the roofline "
        f"{point.ceiling.replace('-', ' ')}, {point.limit}, {point.ridge} of the ridge{share}"
    )
