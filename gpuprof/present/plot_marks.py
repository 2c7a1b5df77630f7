"""What ceilings and points look like in a plot: stroke, marker, area and role of colour."""

from __future__ import annotations

import math

from gpuprof.present.plot_shapes import Dashes
from gpuprof.present.roofline_figure import FigurePoint, RoofLine, RooflineFigure

MARKERS = {"fp64": "s", "fp32": "o", "fp16": "^", "int32": "v", "tensor": "D"}
STROKES: dict[str, tuple[float, Dashes]] = {"dashed": (1.5, (4.0, 2.5)), "solid": (1.5, ()), "bold": (2.8, ())}
"""Width and dashes of each style of ceiling."""
FILL_OPACITY = 0.45

_AREA_OF_UNIT = {"s": 1.0, "o": math.pi / 4, "^": 0.5, "v": 0.5, "D": 1.0}
_FULL_AREA, _LEAST_AREA, _PLAIN_AREAS = 600.0, 20.0, {"l1": 130.0, "l2": 75.0, "dram": 36.0}


def family(path: str) -> str:
    """Return what a path's marker and colour stand for: `tensor` for `tensor.fp16`."""
    return path.partition(".")[0]


def roof_colour(roof: RoofLine) -> str:
    """Return the name of a ceiling's colour: its level's, or its path's."""
    return roof.level or family(roof.path or "")


def point_area(figure: RooflineFigure, point: FigurePoint) -> float:
    """Return a point's area in square points: its share of the time in an overview, else by level."""
    if not figure.sized:
        return _PLAIN_AREAS[point.level]
    return max(_LEAST_AREA, _FULL_AREA * point.share) if point.share is not None else _PLAIN_AREAS["l2"]


def point_width(figure: RooflineFigure, point: FigurePoint) -> float:
    """Return the width of a point's marker, such that markers of all shapes have the area they should."""
    return math.sqrt(point_area(figure, point) / _AREA_OF_UNIT[MARKERS[family(point.path)]])


def point_reach(figure: RooflineFigure, point: FigurePoint) -> float:
    """Return how far a point's marker reaches from its middle: a diamond stands on its corner."""
    part = math.sqrt(0.5) if MARKERS[family(point.path)] == "D" else 0.5
    return point_width(figure, point) * part
