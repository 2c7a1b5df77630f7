"""A roofline as a plot: its axes, ceilings, marks, key and notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import groupby

from gpuprof.model.path_names import path_name
from gpuprof.text import cut_middle
from gpuprof.units import format_percent, format_si, significant
from gpuprof.views.kernel_limits import limit_samples, point_area
from gpuprof.views.plot_values import Axis, Extent, Mark, MarkShape, Plot, PlotLine, Sample, Stroke
from gpuprof.views.roofline_values import RoofLine, Roofline, RooflinePlace
from gpuprof.words.profile_values import LEVEL_NAMES, intensity_text, rate_text

_SHAPES: dict[str, MarkShape] = {"fp64": "s", "fp32": "o", "fp16": "^", "int32": "v", "tensor": "D"}
_STROKES: dict[str, Stroke] = {
    "rated": "dashed",
    "at-clock": "solid",
    "measured": "bold",
    "base": "dashed",
    "new": "solid",
}
_MOST_TICKS = 12
_TITLE_NAME = 100


def roofline_plot(figure: Roofline) -> Plot:
    """Return the plot of a roofline. The number of a mark is the id of its kernel, or the level of a single kernel."""
    one_level = f"{LEVEL_NAMES[figure.levels[0]]} traffic" if len(figure.levels) == 1 else "traffic at each level"
    keys = [(_number(figure, point), point.key) for point in figure.points if point.key]
    return Plot(
        id=figure.id,
        title=figure.title,
        subtitle=figure.subtitle,
        x=Axis(
            name=f"arithmetic intensity, {figure.unit} per byte of {one_level}",
            ends=figure.intensity_range,
            ticks=_ticks(figure.intensity_range, range(-4, 6), lambda value: significant(value, 1)),
            is_log=True,
        ),
        y=Axis(
            name=f"performance, {figure.unit}/s",
            ends=figure.flop_per_s_range,
            ticks=_ticks(figure.flop_per_s_range, range(18), lambda value: format_si(value, "", 1)),
            is_log=True,
        ),
        lines=(*_roof_lines(figure), *_chains(figure)),
        marks=tuple(_mark(figure, point) for point in figure.points),
        arrows=figure.arrows,
        samples=tuple(_samples(figure)),
        key=tuple(dict(keys).items()),
        notes=figure.notes,
    )


def _ticks(ends: Extent, plain: range, text: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    """Return the powers of ten between two ends, or every second one and so on if there are many.

    Powers outside of `plain` are written with an exponent.
    """
    first = math.ceil(math.log10(ends[0]) - 1e-9)
    last = math.floor(math.log10(ends[1]) + 1e-9)
    step = 1 + (last - first) // _MOST_TICKS
    ticks = []
    for power in range(first + -first % step, last + 1, step):
        value = float(f"1e{power}")
        ticks.append((value, text(value) if power in plain else f"1e{power}"))
    return tuple(ticks)


def _roof_lines(figure: Roofline) -> Iterator[PlotLine]:
    """Yield the ceilings. Those of one path or level have one text, at the highest of them."""
    labels = _roof_labels(figure)
    for roof in figure.roofs:
        text = f"{roof.name} {roof.value_text}"
        colour = f"line-{roof.level or 'compute'}"
        yield PlotLine(f"roof-{roof.id}", roof.line, colour, _STROKES[roof.origin], labels.get(roof.id, ""), text)


def _roof_labels(figure: Roofline) -> dict[str, str]:
    """Return the texts of ceilings by the id of the one that has it. Paths with the same values share a text."""
    values: dict[str, list[RoofLine]] = {}
    for roof in figure.roofs:
        values.setdefault(roof.name, []).append(roof)
    names: dict[str, list[str]] = {}
    highest: dict[str, RoofLine] = {}
    for name, roofs in values.items():
        text = ", ".join(roof.value_text for roof in roofs)
        names.setdefault(text, []).append(name)
        highest.setdefault(text, max(roofs, key=lambda roof: roof.value))
    return {highest[text].id: f"{', '.join(names[text])} {text}" for text in names}


def _chains(figure: Roofline) -> Iterator[PlotLine]:
    """Yield a line through the points of each kernel that has several; those of a comparison have arrows."""
    for kernel, points in groupby(figure.points, lambda point: point.kernel):
        places = sorted((point.intensity, point.flop_per_s) for point in points if not point.side)
        if len(places) > 1:
            yield PlotLine(f"chain-{kernel}", tuple(places), "muted", "dotted")


def _mark(figure: Roofline, point: RooflinePlace) -> Mark:
    side = f"-{point.side}" if point.side else ""
    return Mark(
        id=f"point-{point.kernel}-{point.path}-{point.level}{side}",
        kernel=point.kernel,
        place=(point.intensity, point.flop_per_s),
        colour=f"line-{point.colour if figure.sized else point.level}",
        shape=_SHAPES[_family(point.path)],
        area=point_area(point.share if figure.sized else None),
        is_hollow=point.is_hollow,
        is_faint=point.faint,
        text=_hover_text(point),
        number=_number(figure, point) if point.key else "",
    )


def _number(figure: Roofline, point: RooflinePlace) -> str:
    return str(point.kernel) if figure.sized else LEVEL_NAMES[point.level]


def _family(path: str) -> str:
    """Return what the shape of a path's marks stands for: "tensor" for "tensor.fp16"."""
    return path.partition(".")[0]


def _hover_text(point: RooflinePlace) -> str:
    """Return what is shown of a point when a pointer rests on it."""
    source = f" in {point.source}" if point.source else ""
    share = f", {format_percent(point.share)} of the time" if point.share is not None else ""
    return (
        f"{cut_middle(point.label, _TITLE_NAME)} #{point.kernel}{source}: {path_name(point.path)} "
        f"{rate_text(point.path, point.flop_per_s)} at {intensity_text(point.path, point.intensity)} of "
        f"{LEVEL_NAMES[point.level]}, {format_percent(point.fraction_of_roof)} of the roofline "
        f"{point.ceiling.replace('-', ' ')}, {point.limit}, {point.ridge} of the ridge{share}"
    )


def _samples(figure: Roofline) -> Iterator[Sample]:
    """Yield what colours of marks, shapes, strokes and areas mean."""
    if figure.sized:
        yield from limit_samples((point.colour, point.limit) for point in figure.points)
    for family, shape in _SHAPES.items():
        paths = dict.fromkeys(point.path for point in figure.points if _family(point.path) == family)
        if paths:
            yield Sample(", ".join(path_name(path) for path in paths), "muted", shape)
    for origin in dict.fromkeys(roof.origin for roof in figure.roofs):
        meaning = "ceiling at clock" if origin == "at-clock" else f"{origin} ceiling"
        yield Sample(meaning, "muted", stroke=_STROKES[origin])
