"""The roofline of both sides of a comparison: hollow base points, filled new ones, arrows between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.sides import Side, SideKernel
from gpuprof.diagnose.drawn import placed_point
from gpuprof.hardware.specs import LEVELS, Level
from gpuprof.model.session import Ceiling
from gpuprof.text import cut_middle
from gpuprof.units import format_percent
from gpuprof.views import document
from gpuprof.views.plot import figure_svg
from gpuprof.views.roofline_data import place_of
from gpuprof.views.roofline_plot import roofline_drawing
from gpuprof.views.roofline_values import Roofline, RooflinePlace, shown_ceilings, with_ceilings
from gpuprof.words.comparison_verdicts import time_text
from gpuprof.words.profile_values import LEVEL_NAMES, count_text
from gpuprof.words.roofline_points import pairs_without_point_note

_MOST_ARROWS = 8
_MOST_KERNELS = 40
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
    return (document.Figure(svg, figure.title, drawing.notes, f"figure-{figure.id}", figure.subtitle),)


def compared_roofline(compared: Compared) -> Roofline:
    """Return the roofline of both sides at DRAM, or at the first level that any kernel has a point at."""
    level: Level = "dram"
    placed: dict[int, list[RooflinePlace]] = {}
    for candidate in reversed(LEVELS):
        if not placed:
            level = candidate
            placed = _placed(compared, level)
    points: list[RooflinePlace] = []
    arrows = []
    changed = 0
    drawn = [change for change in compared.comparison.kernels if change.id in placed][:_MOST_KERNELS]
    for change in drawn:
        mine = placed[change.id]
        if not change.is_changed or changed == _MOST_ARROWS:
            points.append(replace(mine[-1], faint=True))
            continue
        changed += 1
        if len(mine) == 2:
            arrows.append((len(points), len(points) + 1))
        points += [*mine[:-1], replace(mine[-1], key=_key_text(change, mine))]
    notes = []
    if len(placed) < len(compared.pairs):
        notes.append(pairs_without_point_note(compared, placed))
    if len(placed) > len(drawn):
        notes.append(f"Drawn: the {len(drawn)} kernels with most effect on the run.")
    of_arrows = count_text(len(arrows), "arrow")
    figure = Roofline(
        id="comparison",
        title=f"{LEVEL_NAMES[level]} roofline, base and new",
        subtitle=f"{count_text(len(drawn), 'kernel')} drawn, {of_arrows} from base (hollow) to new (filled)",
        device=0,
        ceiling=_CEILING,
        levels=(level,),
        points=tuple(points),
        arrows=tuple(arrows),
        notes=tuple(notes),
    )
    return _with_both_ceilings(figure, compared)


def _placed(compared: Compared, level: Level) -> dict[int, list[RooflinePlace]]:
    """Return the points of each change at a level, that of base first; a side without one is left out."""
    # Computed once: it sums over all kernels.
    total_s = compared.base.total_s or compared.new.total_s
    placed: dict[int, list[RooflinePlace]] = {}
    for change, pair in zip(compared.comparison.kernels, compared.pairs, strict=True):
        for word, side, kernels in (("base", compared.base, pair.base), ("new", compared.new, pair.new)):
            place = _longest_place(side, kernels, level, total_s)
            if place is not None:
                place = replace(place, kernel=change.id, label=change.label, source=word, side=word)
                placed.setdefault(change.id, []).append(place)
    return placed


def _longest_place(
    side: Side, kernels: Sequence[SideKernel], level: Level, total_s: float | None
) -> RooflinePlace | None:
    """Return the point of the longest of these kernels that has one at a level."""
    for kernel in sorted(kernels, key=_time_s, reverse=True):
        point = placed_point(kernel.representative, level, _CEILING)
        if point is not None:
            place = place_of(side.runs[kernel.run].session, kernel.representative, point)
            share = kernel.total_s / total_s if kernel.total_s is not None and total_s else None
            return replace(place, share=share)
    return None


def _time_s(kernel: SideKernel) -> float:
    return kernel.total_s or 0.0


def _key_text(change: KernelChange, points: Sequence[RooflinePlace]) -> str:
    fractions = " → ".join(format_percent(point.fraction_of_roof) for point in points)
    return f"{cut_middle(change.label, _NAME)}: {time_text(change.time)}, {fractions} of the roofline"


def _with_both_ceilings(figure: Roofline, compared: Compared) -> Roofline:
    """Return the figure with the ceilings of its sides, as one if they are alike, else base dashed and new solid."""
    base = _ceilings(figure, compared.base, [pair.base for pair in compared.pairs])
    new = _ceilings(figure, compared.new, [pair.new for pair in compared.pairs])
    values = {ceiling.id: ceiling.value for ceiling in base}
    are_alike = all(math.isclose(item.value, values.get(item.id, item.value), rel_tol=_ALIKE) for item in new)
    if are_alike:
        return with_ceilings(figure, new or base)
    # Names and strokes of ceilings follow from their origin: here it is their side.
    sides = [replace(ceiling, origin="base") for ceiling in base] + [replace(ceiling, origin="new") for ceiling in new]
    note = "The ceilings of the two sides differ: dashed is base, solid is new."
    return with_ceilings(replace(figure, notes=(*figure.notes, note)), sides)


def _ceilings(figure: Roofline, side: Side, pairs: Sequence[Sequence[SideKernel]]) -> list[Ceiling]:
    """Return the ceilings of the GPU that ran the longest of these kernels."""
    longest = max(chain.from_iterable(pairs), key=_time_s, default=None)
    if longest is None:
        return []
    ceilings = side.runs[longest.run].session.ceilings
    place = (_CEILING, longest.representative.device)
    of_gpu = [ceiling for ceiling in ceilings if (ceiling.origin, ceiling.device) == place]
    return shown_ceilings(of_gpu, {point.path for point in figure.points}, figure.levels)
