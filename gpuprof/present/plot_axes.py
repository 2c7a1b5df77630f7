"""Draws the inside of a RooflineFigure on a canvas, from back to front: axes, ceilings, points, labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpuprof.present.label_placement import Box, place_along, place_around, place_beside
from gpuprof.present.plot_canvas import Canvas, Mark, Stroke
from gpuprof.present.plot_labels import point_labels, roof_labels
from gpuprof.present.plot_marks import (
    FILL_OPACITY,
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
from gpuprof.present.roofline_figure import Arrow, Extent, FigurePoint, Ridge, RoofLine
from gpuprof.units import significant

_CROWDED = 20.0
"""A ceiling's label that costs more than this along its line may stand beside it."""
_RIDGE_COST = 8.0
"""A ridge's label that costs more than this is left out."""
_SHORT_LEADER = 5.0
_LEAST_ARROW = 3.0
"""Shorter than its head an arrow shows nothing."""


def draw_axes(canvas: Canvas) -> None:
    """Draw everything that lies on the axes, then find room for the texts: ceilings first, points last."""
    figure = canvas.figure
    canvas.frame()
    for roof in figure.roofs:
        _draw_roof(canvas, roof)
    for chain in _chains([point for point in figure.points if not point.side]):
        canvas.line(chain, Stroke(canvas.colours["muted"], 0.8, (1.0, 2.0)), layer=3.0)
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


def _draw_roof(canvas: Canvas, roof: RoofLine) -> None:
    width, dashes = STROKES[roof.style]
    stroke = Stroke(canvas.colours[f"line-{roof_colour(roof)}"], width, dashes)
    canvas.line(roof.line, stroke, layer=2.2 if dashes else 2.0, gid=roof_id(roof))
    canvas.occupied.add_line(canvas.roof_at(roof))


def _chains(points: Sequence[FigurePoint]) -> Iterator[list[Extent]]:
    """Yield the places of each kernel that has several points."""
    for kernel in dict.fromkeys(point.kernel for point in points):
        places = [(point.intensity, point.flop_per_s) for point in points if point.kernel == kernel]
        if len(places) > 1:
            yield sorted(places)


def _draw_point(canvas: Canvas, point: FigurePoint) -> None:
    colour = canvas.colours[f"line-{point_colour(canvas.figure, point)}"]
    mark = Mark(
        shape=MARKERS[family(point.path)],
        width=point_width(canvas.figure, point),
        edge=colour,
        edge_width=1.6 if point.hollow else 1.1,
        fill=canvas.colours["background"] if point.hollow else colour,
        fill_opacity=1.0 if point.hollow else FILL_OPACITY,
        faint=point.faint,
    )
    canvas.mark((point.intensity, point.flop_per_s), mark, layer=4.0, gid=point_id(point))
    x, y = canvas.at(point.intensity, point.flop_per_s)
    half = point_reach(canvas.figure, point) + 1
    canvas.occupied.add_mark(Box(left=x - half, bottom=y - half, right=x + half, top=y + half))


def _draw_arrow(canvas: Canvas, arrow: Arrow) -> None:
    """Draw an arrow from edge to edge of its points; where they touch, from middle to middle, over them."""
    start, end = ((point.intensity, point.flop_per_s) for point in arrow)
    gaps = [point_reach(canvas.figure, point) + 1.5 for point in arrow]
    ends = (canvas.at(*start), canvas.at(*end))
    length = math.dist(*ends)
    if length < sum(gaps) + _LEAST_ARROW:
        gaps = [0.0, 0.0]
    if length < _LEAST_ARROW:
        return
    canvas.arrow(start, end, gaps)
    canvas.occupied.add_line(ends)


def _label_roof(canvas: Canvas, roof: RoofLine, text: str) -> None:
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
        canvas.leader((beside.root, beside.tip))
    elif along is not None:
        canvas.text(along.start, text, SMALL, colour, gid, rotation=math.degrees(along.angle))
        canvas.occupied.add_text(along.boxes)


def _draw_ridges(canvas: Canvas, ridges: Sequence[Ridge]) -> None:
    """Mark the ridges of the ceilings that percentages refer to, and write the intensity of the few that fit."""
    for ridge in ridges:
        mark = Mark("o", width=4.0, edge=canvas.colours["muted"], fill=canvas.colours["background"])
        gid = f"ridge-{ridge.path}-{ridge.level}"
        canvas.mark((ridge.intensity, ridge.flop_per_s), mark, layer=3.5, gid=gid)
        _label_ridge(canvas, ridge)


def _label_ridge(canvas: Canvas, ridge: Ridge) -> None:
    x, y = canvas.at(ridge.intensity, ridge.flop_per_s)
    text = f"ridge {significant(ridge.intensity)}"
    width = text_width(text, SMALL)
    for left in (x + 6.0, x - 6.0 - width):
        box = Box(left=left - 2, bottom=y - SMALL - 5, right=left + width + 2, top=y - 4)
        if canvas.occupied.cost([box]) < _RIDGE_COST:
            canvas.text((left, y - SMALL - 3), text, SMALL, canvas.colours["muted"])
            canvas.occupied.add_text([box])
            return


def _label_point(canvas: Canvas, point: FigurePoint, text: str) -> None:
    """Write a point's label near it, with a leader where it is not beside it."""
    middle = canvas.at(point.intensity, point.flop_per_s)
    radius = point_reach(canvas.figure, point)
    place = place_around(canvas.occupied, middle, radius, text_width(text, TEXT), TEXT)
    if place is None:
        return
    role = "ink" if canvas.figure.sized else f"text-{point.level}"
    canvas.text_in(place.box, text, TEXT, canvas.colours[role], gid=f"label-{point_id(point)}")
    if math.dist(place.root, place.tip) > _SHORT_LEADER:
        canvas.leader((place.root, place.tip))
