"""The roofline of both sides of a comparison: hollow base points, filled new ones, arrows between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.sides import Side, SideKernel
from gpuprof.hardware.specs import LEVELS, Level
from gpuprof.model.session import Ceiling
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_percent
from gpuprof.views import document
from gpuprof.views.plot import figure_svg
from gpuprof.views.roofline_data import place_of, placed_point
from gpuprof.views.roofline_plot import roofline_drawing
from gpuprof.views.roofline_values import Roofline, RooflinePlace, shown_ceilings, with_ceilings
from gpuprof.views.roofline_values import Side as SideWord
from gpuprof.words.comparison_verdicts import time_text
from gpuprof.words.profile_values import LEVEL_NAMES, count_text
from gpuprof.words.roofline_points import without_point

_MOST_ARROWS = 8
_MOST_KERNELS = 100
_NAME = 60
# Ceilings of two sides within two percent, about the width of a line, are drawn as one.
_ALIKE = 0.02
_CEILING = "at-clock"


def comparison_figures(compared: Compared, links: Mapping[int, str]) -> tuple[document.Figure, ...]:
    """Return the roofline of both sides; points link to `links` by the id of the change."""
    if not compared.pairs:
        return ()
    figure = compared_roofline(compared)
    drawing = roofline_drawing(figure)
    svg = partial(figure_svg, drawing, links) if figure.points else None
    notes = (*drawing.key, *drawing.notes)
    return (document.Figure(svg, figure.title, notes, f"figure-{figure.id}", figure.subtitle),)


class _Placed(NamedTuple):
    """A change of a kernel, and its longest kernel with a point on each side; None if there is none."""

    change: KernelChange
    base: SideKernel | None
    new: SideKernel | None


def compared_roofline(compared: Compared) -> Roofline:
    """Return the roofline of both sides at DRAM, or at the first level that any kernel has a point at."""
    level: Level = "dram"
    placed: list[_Placed] = []
    for candidate in reversed(LEVELS):
        if not placed:
            level = candidate
            placed = list(_placed(compared, level))
    points: list[RooflinePlace] = []
    arrows = []
    changed = 0
    for item in placed[:_MOST_KERNELS]:
        is_faint = not item.change.is_changed or changed == _MOST_ARROWS
        changed += not is_faint
        mine = _points(compared, item, level, is_faint=is_faint)
        points += mine
        if len(mine) == 2:
            arrows.append((len(points) - 2, len(points) - 1))
    notes = []
    if len(placed) < len(compared.pairs):
        notes.append(_without_point(compared, {item.change.id for item in placed}))
    if len(placed) > _MOST_KERNELS:
        notes.append(f"Drawn: the {_MOST_KERNELS} kernels with most effect on the run.")
    drawn = count_text(len(placed[:_MOST_KERNELS]), "kernel")
    figure = Roofline(
        id="comparison",
        title=f"{LEVEL_NAMES[level]} roofline, base and new",
        subtitle=f"{drawn} drawn, {count_text(len(arrows), 'arrow')} from base (hollow) to new (filled)",
        device=0,
        ceiling=_CEILING,
        levels=(level,),
        points=tuple(points),
        arrows=tuple(arrows),
        notes=tuple(notes),
    )
    return _with_both_ceilings(figure, compared, placed)


def _placed(compared: Compared, level: Level) -> Iterator[_Placed]:
    """Yield the changes that have a point at a level on any side, those with most effect on the run first."""
    for change, pair in zip(compared.comparison.kernels, compared.pairs, strict=True):
        placed = _Placed(change, _longest(pair.base, level), _longest(pair.new, level))
        if placed.base is not None or placed.new is not None:
            yield placed


def _longest(kernels: Sequence[SideKernel], level: Level) -> SideKernel | None:
    placed = [kernel for kernel in kernels if placed_point(kernel.representative, level, _CEILING) is not None]
    return max(placed, key=_time_s, default=None)


def _time_s(kernel: SideKernel) -> float:
    return kernel.total_s or 0.0


def _points(compared: Compared, item: _Placed, level: Level, *, is_faint: bool) -> list[RooflinePlace]:
    """Return the points of a kernel that changed on both sides; a faint one has the one of its newer side."""
    points: list[RooflinePlace] = []
    if item.base is not None and not (is_faint and item.new is not None):
        points += _point(compared, item.change, compared.base, item.base, level)
    if item.new is not None:
        points += _point(compared, item.change, compared.new, item.new, level)
    if is_faint:
        return [replace(point, faint=True) for point in points]
    fractions = " → ".join(format_percent(point.fraction_of_roof) for point in points)
    name = cut_middle(printable(item.change.label), _NAME)
    key = f"{name}: {time_text(item.change.time)}, {fractions} of the roofline"
    return [*points[:-1], replace(points[-1], key=key)]


def _point(
    compared: Compared, change: KernelChange, side: Side, kernel: SideKernel, level: Level
) -> Iterator[RooflinePlace]:
    point = placed_point(kernel.representative, level, _CEILING)
    if point is None:
        return
    total_s = compared.base.total_s or compared.new.total_s
    word: SideWord = "base" if side is compared.base else "new"
    yield replace(
        place_of(side.runs[kernel.run].session, kernel.representative, point),
        kernel=change.id,
        label=change.label,
        source=word,
        share=kernel.total_s / total_s if kernel.total_s is not None and total_s else None,
        side=word,
    )


def _with_both_ceilings(figure: Roofline, compared: Compared, placed: Sequence[_Placed]) -> Roofline:
    """Return the figure with the ceilings of its sides, as one if they are alike, else base dashed and new solid."""
    base = _ceilings(figure, compared.base, [item.base for item in placed])
    new = _ceilings(figure, compared.new, [item.new for item in placed])
    values = {ceiling.id: ceiling.value for ceiling in base}
    are_alike = all(math.isclose(item.value, values.get(item.id, item.value), rel_tol=_ALIKE) for item in new)
    if not base or not new or are_alike:
        return with_ceilings(figure, new or base)
    # A drawing names and strokes ceilings by their origin: here it is their side.
    sides = [replace(ceiling, origin="base") for ceiling in base] + [replace(ceiling, origin="new") for ceiling in new]
    note = "The ceilings of the two sides differ: dashed is base, solid is new."
    return with_ceilings(replace(figure, notes=(*figure.notes, note)), sides)


def _ceilings(figure: Roofline, side: Side, kernels: Sequence[SideKernel | None]) -> list[Ceiling]:
    """Return the ceilings of the GPU that ran the longest of these kernels."""
    longest = max(filter(None, kernels), key=_time_s, default=None)
    if longest is None:
        return []
    ceilings = side.runs[longest.run].session.ceilings
    place = (_CEILING, longest.representative.device)
    of_gpu = [ceiling for ceiling in ceilings if (ceiling.origin, ceiling.device) == place]
    return shown_ceilings(of_gpu, {point.path for point in figure.points}, figure.levels)


def _without_point(compared: Compared, drawn: Collection[int]) -> str:
    """Return how many kernels have no point, and the reason of most of them."""
    reasons: Counter[str] = Counter()
    for change, pair in zip(compared.comparison.kernels, compared.pairs, strict=True):
        if change.id not in drawn:
            reasons[without_point((*pair.new, *pair.base)[0].representative).why] += 1
    why = reasons.most_common(1)[0][0]
    reason = why if len(reasons) == 1 else f"mostly {why}"
    return f"Not drawn: {reasons.total()} of {count_text(len(compared.pairs), 'kernel')}: {reason}."
