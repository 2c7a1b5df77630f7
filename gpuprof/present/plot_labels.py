"""Which points and ceilings of a plot get a label, and what it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuprof.model.path_names import path_name
from gpuprof.present.plot_text import TEXT, fitted
from gpuprof.present.roofline_figure import Extent, FigurePoint, RoofLine, RooflineFigure
from gpuprof.present.session_text import LEVEL_NAMES, intensity_text, rate_text
from gpuprof.present.text import cut_middle, printable
from gpuprof.units import format_percent

_LABELLED_KERNELS, _ALWAYS_LABELLED, _LEAST_SHARE = 8, 3, 0.01
_LABEL_WIDTH, _SOURCE_WIDTH, _CHANGE_WIDTH = 190.0, 90.0, 250.0
_SAME_PLACE = 30.0
_TITLE_LENGTH = 100


def roof_labels(figure: RooflineFigure) -> Iterator[tuple[RoofLine, str]]:
    """Yield a ceiling and a text for all that lie on it, first those that percentages refer to."""
    for roofs in sorted(_coincident(figure.roofs), key=lambda roofs: roofs[0].origin != figure.ceiling):
        yield roofs[0], f"{', '.join(roof.name for roof in roofs)} {roofs[0].value_text}"


def _coincident(roofs: Iterable[RoofLine]) -> list[list[RoofLine]]:
    """Join ceilings of one origin, kind and value, which lie on each other, so that they share a label."""
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


def point_title(point: FigurePoint) -> str:
    """Return what is shown of a point when a pointer rests on it."""
    share = f", {format_percent(point.share)} of the time" if point.share is not None else ""
    source = f" in {point.source}" if point.source else ""
    return (
        f"{cut_middle(point.label, _TITLE_LENGTH)} #{point.kernel}{source}: {path_name(point.path)} "
        f"{rate_text(point.path, point.flop_per_s)} at {intensity_text(point.path, point.intensity)} of "
        f"{LEVEL_NAMES[point.level]}, {format_percent(point.fraction_of_roof)} of the roofline "
        f"{point.ceiling.replace('-', ' ')}, {point.bound}-bound{share}"
    )


def point_labels(figure: RooflineFigure, at: Callable[[FigurePoint], Extent]) -> Iterator[tuple[FigurePoint, str]]:
    """Yield the points that get a label: the longest few, one for launches of a kernel that lie on each other."""
    mains = [point for point in figure.points if point.main or not figure.sized]
    mains.sort(key=lambda point: -(point.share or 0.0))
    for rank, (point, others) in enumerate(_together(mains, at)[:_LABELLED_KERNELS]):
        share = sum(item.share or 0.0 for item in (point, *others))
        if point.side:
            yield point, fitted(printable(point.caption), _CHANGE_WIDTH, TEXT)
        elif rank < _ALWAYS_LABELLED or share >= _LEAST_SHARE:
            yield point, _label_text(point, others) + (_fractions([point, *others]) if figure.sized else "")


class _Group(NamedTuple):
    """The point that a label stands at, and the other launches that share the label."""

    point: FigurePoint
    others: list[FigurePoint]


def _together(points: Iterable[FigurePoint], at: Callable[[FigurePoint], Extent]) -> list[_Group]:
    """Join launches of one kernel whose points lie nearly in one place."""
    groups: list[_Group] = []
    for point in points:
        for group in groups:
            first = group.point
            same = (first.label, first.level) == (point.label, point.level)
            if same and math.dist(at(point), at(first)) < _SAME_PLACE:
                group.others.append(point)
                break
        else:
            groups.append(_Group(point, []))
    return groups


def _label_text(point: FigurePoint, others: Sequence[FigurePoint]) -> str:
    together = sorted((point, *others), key=lambda item: item.kernel)
    source = _sources(together)
    if not others:
        return fitted(printable(point.caption), _LABEL_WIDTH, TEXT) + source
    tail = ", ".join(f"#{item.kernel}" for item in together) if len(together) <= 3 else f"×{len(together)}"
    return f"{fitted(printable(point.label), _LABEL_WIDTH, TEXT)} {tail}{source}"


def _sources(points: Iterable[FigurePoint]) -> str:
    """Name the files of points, in the order of the points; of more than two say how many."""
    names = list(dict.fromkeys(point.source for point in points if point.source))
    if len(names) > 2:
        return f" in {len(names)} files"
    return f" in {' and '.join(fitted(name, _SOURCE_WIDTH, TEXT) for name in names)}" if names else ""


def _fractions(points: Sequence[FigurePoint]) -> str:
    lowest = format_percent(min(point.fraction_of_roof for point in points))
    highest = format_percent(max(point.fraction_of_roof for point in points))
    return f", {lowest}" if lowest == highest else f", {lowest} to {highest}"
