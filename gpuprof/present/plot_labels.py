"""Which points and ceilings of a plot get a label, and what it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from gpuprof.model.path_names import path_name
from gpuprof.present.plot_text import TEXT, fitted
from gpuprof.present.roofline_figure import Extent, FigurePoint, RoofLine, RooflineFigure
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_percent
from gpuprof.words.profile_values import LEVEL_NAMES, intensity_text, rate_text

_Item = TypeVar("_Item")
_LABELLED_KERNELS, _ALWAYS_LABELLED, _LEAST_SHARE = 8, 3, 0.01
_LABEL_WIDTH, _SOURCE_WIDTH, _CHANGE_WIDTH = 190.0, 90.0, 250.0
_SAME_PLACE = 30.0
_TITLE_LENGTH = 100


def roof_labels(figure: RooflineFigure) -> Iterator[tuple[RoofLine, str]]:
    """Yield a ceiling and a text for all that lie on it, first those that percentages refer to."""
    for roofs in sorted(_joined(figure.roofs, _coincide), key=lambda roofs: roofs[0].origin != figure.ceiling):
        yield roofs[0], f"{', '.join(roof.name for roof in roofs)} {roofs[0].value_text}"


def _coincide(first: RoofLine, other: RoofLine) -> bool:
    same = (first.origin, first.kind) == (other.origin, other.kind)
    return same and abs(first.value / other.value - 1) < 0.01


def _joined(items: Iterable[_Item], alike: Callable[[_Item, _Item], bool]) -> list[list[_Item]]:
    """Join each item to the first group whose first item is alike."""
    groups: list[list[_Item]] = []
    for item in items:
        group = next((group for group in groups if alike(group[0], item)), None)
        if group is None:
            groups.append([item])
        else:
            group.append(item)
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

    def lie_together(first: FigurePoint, other: FigurePoint) -> bool:
        same = (first.label, first.level) == (other.label, other.level)
        return same and math.dist(at(first), at(other)) < _SAME_PLACE

    mains = [point for point in figure.points if point.main or not figure.sized]
    mains.sort(key=lambda point: -(point.share or 0.0))
    for rank, points in enumerate(_joined(mains, lie_together)[:_LABELLED_KERNELS]):
        share = sum(point.share or 0.0 for point in points)
        if points[0].side:
            yield points[0], fitted(printable(points[0].caption), _CHANGE_WIDTH, TEXT)
        elif rank < _ALWAYS_LABELLED or share >= _LEAST_SHARE:
            yield points[0], _label_text(points) + (_fractions(points) if figure.sized else "")


def _label_text(points: Sequence[FigurePoint]) -> str:
    together = sorted(points, key=lambda point: point.kernel)
    source = _sources(together)
    if len(points) == 1:
        return fitted(printable(points[0].caption), _LABEL_WIDTH, TEXT) + source
    tail = ", ".join(f"#{point.kernel}" for point in together) if len(together) <= 3 else f"×{len(together)}"
    return f"{fitted(printable(points[0].label), _LABEL_WIDTH, TEXT)} {tail}{source}"


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
