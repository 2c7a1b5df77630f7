"""The roofline of both sides of a comparison: hollow base points, filled new ones, arrows between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.sides import Side, SideKernel
from gpuprof.hardware.specs import LEVELS, Level
from gpuprof.model.path_names import work_unit
from gpuprof.model.session import Ceiling, RooflinePoint
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_percent, format_si
from gpuprof.views import document
from gpuprof.views.plot_files import figure_svg
from gpuprof.views.roofline_ceilings import DrawnRoofs, drawn_roofs, shown_ceilings
from gpuprof.views.roofline_data import place_of, placed_point
from gpuprof.views.roofline_plot import roofline_plot
from gpuprof.views.roofline_values import RoofLine, Roofline, RooflinePlace
from gpuprof.words.comparison_verdicts import time_text
from gpuprof.words.profile_values import LEVEL_NAMES, count_text
from gpuprof.words.roofline_points import without_point

_MOST_ARROWS = 8
_MOST_KERNELS = 100
# Up to so many kernels, those without an arrow have both of their points.
_FEW_KERNELS = 20
_NAME = 60
# Ceilings of two sides within two percent, about the width of a line, are drawn as one.
_ALIKE = 0.02
_CEILING = "at-clock"


class _Placed(Struct, frozen=True):
    """A kernel of one side with its point."""

    kernel: SideKernel
    point: RooflinePoint
    side: Side


class _Change(Struct, frozen=True):
    """A change of a kernel with its points; None if a side has none."""

    change: KernelChange
    base: _Placed | None
    new: _Placed | None
    has_arrow: bool = False


def comparison_figures(compared: Compared, links: Mapping[int, str]) -> tuple[document.Figure, ...]:
    """Return the roofline of both sides; points link to `links` by the id of the change."""
    if not compared.pairs:
        return ()
    figure = compared_roofline(compared)
    svg = partial(figure_svg, roofline_plot(figure), links) if figure.points else None
    return (document.Figure(svg, figure.title, figure.notes, f"figure-{figure.id}", figure.subtitle),)


def compared_roofline(compared: Compared) -> Roofline:
    """Return the roofline of both sides at the level that most kernels have, preferably DRAM."""
    level: Level = "dram"
    changes: list[_Change] = []
    for candidate in reversed(LEVELS):
        found = _changes(compared, candidate)
        if len(found) > len(changes):
            level, changes = candidate, found
    drawn = changes[:_MOST_KERNELS]
    points: list[RooflinePlace] = []
    arrows = []
    for change in drawn:
        mine = _points(compared, change, is_few=len(drawn) <= _FEW_KERNELS)
        if change.has_arrow and len(mine) == 2:
            arrows.append((len(points), len(points) + 1))
        points += mine
    roofs, are_apart = _roofs(drawn, points, level)
    return Roofline(
        id="comparison",
        title=f"{LEVEL_NAMES[level]} roofline, base and new",
        subtitle=f"{count_text(len(drawn), 'kernel')} drawn, {count_text(len(arrows), 'arrow')} from base to new",
        device=0,
        ceiling=_CEILING,
        levels=(level,),
        unit="OP" if points and all("int" in point.path for point in points) else "FLOP",
        sized=True,
        intensity_range=roofs.intensities,
        flop_per_s_range=roofs.rates,
        roofs=roofs.lines,
        ridges=roofs.ridges,
        points=tuple(points),
        left_out=(),
        notes=tuple(_notes(compared, changes, are_apart=are_apart, has_arrows=bool(arrows))),
        arrows=tuple(arrows),
    )


def _changes(compared: Compared, level: Level) -> list[_Change]:
    """Return the changes that have a point at a level on any side, those with most effect on the run first."""
    changes = []
    arrows = 0
    for change, pair in zip(compared.comparison.kernels, compared.pairs, strict=True):
        base = _placed(compared.base, pair.base, level)
        new = _placed(compared.new, pair.new, level)
        if base is None and new is None:
            continue
        has_arrow = change.is_changed and arrows < _MOST_ARROWS
        arrows += has_arrow
        changes.append(_Change(change, base, new, has_arrow))
    return changes


def _placed(side: Side, kernels: Sequence[SideKernel], level: Level) -> _Placed | None:
    """Return the longest of these kernels that has a point."""
    for kernel in sorted(kernels, key=lambda kernel: -(kernel.total_s or 0.0)):
        point = placed_point(kernel.representative, level, _CEILING)
        if point is not None:
            return _Placed(kernel, point, side)
    return None


def _points(compared: Compared, change: _Change, *, is_few: bool) -> list[RooflinePlace]:
    points = []
    if change.base is not None and (change.has_arrow or change.new is None or is_few):
        points.append(_point(compared, change, change.base, "base"))
    if change.new is not None:
        points.append(_point(compared, change, change.new, "new"))
    return points


def _point(compared: Compared, change: _Change, placed: _Placed, side: Literal["base", "new"]) -> RooflinePlace:
    total_s = compared.base.total_s or compared.new.total_s
    time_s = placed.kernel.total_s
    session = placed.side.runs[placed.kernel.run].session
    is_last = side == "new" or change.new is None
    key = _key_text(change) if change.has_arrow and is_last else ""
    point = place_of(session, placed.kernel.representative, placed.point, is_main=is_last, key=key)
    return replace(
        point,
        kernel=change.change.id,
        label=change.change.label,
        source=side,
        share=time_s / total_s if time_s is not None and total_s else None,
        side=side,
        faint=not change.has_arrow,
    )


def _key_text(change: _Change) -> str:
    fractions = [format_percent(item.point.fraction_of_roof) for item in (change.base, change.new) if item is not None]
    name = cut_middle(printable(change.change.label), _NAME)
    return f"{name}: {_verdict(change.change)}, {' → '.join(fractions)} of the roofline"


def _verdict(change: KernelChange) -> str:
    if change.time.verdict in ("slower", "faster", "new", "gone"):
        return time_text(change.time)
    return f"time {change.time.verdict}, work {change.work.verdict}"


def _roofs(changes: Sequence[_Change], points: Sequence[RooflinePlace], level: Level) -> tuple[DrawnRoofs, bool]:
    """Return the ceilings of both sides, and whether they are drawn apart: base dashed, new solid."""
    paths = {point.path for point in points}
    base = shown_ceilings(_ceilings([item.base for item in changes if item.base is not None]), paths, (level,))
    new = shown_ceilings(_ceilings([item.new for item in changes if item.new is not None]), paths, (level,))
    if not base or not new or _are_alike(base, new):
        return drawn_roofs(new or base, points), False
    # Lines are drawn by their origin, and rated ones are dashed.
    roofs = drawn_roofs([*(replace(ceiling, origin="rated") for ceiling in base), *new], points)
    ridges = (replace(ridge, origin=_side_of(ridge.origin)) for ridge in roofs.ridges)
    return replace(roofs, lines=tuple(map(_side_line, roofs.lines)), ridges=tuple(ridges)), True


def _ceilings(placed: Sequence[_Placed]) -> list[Ceiling]:
    """Return the ceilings of the GPU that ran the longest of these kernels."""
    if not placed:
        return []
    longest = max(placed, key=lambda item: item.kernel.total_s or 0.0)
    ceilings = longest.side.runs[longest.kernel.run].session.ceilings
    device = longest.kernel.representative.device
    return [item for item in ceilings if item.origin == _CEILING and item.device == device]


def _are_alike(base: Sequence[Ceiling], new: Sequence[Ceiling]) -> bool:
    values = {ceiling.id: ceiling.value for ceiling in base}
    common = [ceiling for ceiling in new if ceiling.id in values]
    return bool(common) and all(abs(values[item.id] / item.value - 1) <= _ALIKE for item in common)


def _side_of(origin: str) -> str:
    return "base" if origin == "rated" else "new"


def _side_line(roof: RoofLine) -> RoofLine:
    side = _side_of(roof.origin)
    value = format_si(roof.value, "B/s" if roof.level else work_unit(roof.path or ""))
    return replace(roof, id=f"{side}/{roof.level or roof.path}", origin=side, value_text=f"{value} {side}")


def _notes(compared: Compared, changes: Sequence[_Change], *, are_apart: bool, has_arrows: bool) -> list[str]:
    if not changes:
        return [_without_point(compared, set())]
    notes = []
    if has_arrows:
        notes.append("Each arrow leads from a kernel on the base side (hollow) to the same kernel on the new side.")
    if len(changes) > _FEW_KERNELS:
        notes.append("A faint kernel is drawn as it is on the new side; if it is gone, as it was.")
    if are_apart:
        gpus = [_gpu(side) for side in (compared.base, compared.new)]
        whose = "of another GPU" if gpus[0] != gpus[1] else "at another SM clock"
        notes.append(f"The ceilings differ, they are {whose}: dashed is base ({gpus[0]}), solid is new ({gpus[1]}).")
    if compared.base.total_s:
        total = format_si(compared.base.total_s, "s")
        notes.append(f"Areas: time of a {compared.base.per}, as a share of the base's {total}.")
    if len(changes) < len(compared.pairs):
        notes.append(_without_point(compared, {item.change.id for item in changes}))
    if len(changes) > _MOST_KERNELS:
        notes.append(f"Drawn: the {_MOST_KERNELS} kernels with most effect on the run.")
    return notes


def _without_point(compared: Compared, drawn: set[int]) -> str:
    """Return how many kernels have no point, and the reason of most of them."""
    reasons: Counter[str] = Counter()
    for change, pair in zip(compared.comparison.kernels, compared.pairs, strict=True):
        if change.id not in drawn:
            kernel = (*pair.new, *pair.base)[0].representative
            reasons[without_point(kernel).why] += 1
    why = reasons.most_common(1)[0][0]
    reason = why if len(reasons) == 1 else f"mostly {why}"
    absent = sum(reasons.values())
    if absent == len(compared.pairs):
        return f"No kernel has a point: {reason}."
    return f"Not drawn: {absent} of {count_text(len(compared.pairs), 'kernel')}: {reason}."


def _gpu(side: Side) -> str:
    """Return the names of the GPUs of a side."""
    devices = [device for run in side.runs for device in run.session.devices]
    names = dict.fromkeys(printable(device.name or "GPU of unknown name") for device in devices)
    return ", ".join(names) or "GPU of unknown name"
