"""Both rooflines of a comparison as one figure of pure data: hollow base points, filled new ones, arrows between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.sides import Side, SideKernel
from gpuprof.hardware.specs import LEVELS, Level
from gpuprof.model.headline import main_point
from gpuprof.model.path_names import work_unit
from gpuprof.model.session import Ceiling, RooflinePoint
from gpuprof.present.figure_roofs import DrawnRoofs, drawn_roofs, shown_ceilings
from gpuprof.present.figures import without_point
from gpuprof.present.roofline_figure import Arrow, FigurePoint, RoofLine, RooflineFigure
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_si
from gpuprof.views.document import Figure
from gpuprof.words.comparison_verdicts import time_text
from gpuprof.words.profile_values import LEVEL_NAMES, count_text

_MOST_ARROWS, _MOST_KERNELS, _BOTH_UP_TO = 8, 100, 20
"""Arrows with labels; kernels that are drawn; up to how many kernels those without an arrow have both points."""
_NAME_LENGTH = 30
_ALIKE = 0.02
"""Ceilings of two sides within two percent, about a line's width, are drawn as one."""
_OPTION = "at-clock"


class _Place(Struct, frozen=True):
    """A change of a kernel with the roofline points that it has; None if a side has none."""

    change: KernelChange
    base: tuple[SideKernel, RooflinePoint] | None
    new: tuple[SideKernel, RooflinePoint] | None


def comparison_page(compared: Compared) -> str:
    """Return the page of a comparison."""
    from gpuprof.views.comparison import whole_comparison
    from gpuprof.views.html import render_page

    return render_page(whole_comparison(compared, page_figure(compared)))


def page_lines(compared: Compared, _options: object = None) -> list[str]:
    """Return the lines of the page."""
    return comparison_page(compared).split("\n")


def page_figure(compared: Compared) -> tuple[Figure, ...]:
    """Return the drawing of the page; none if no kernel is compared."""
    from gpuprof.present.plot import render_svg

    if not compared.pairs:
        return ()
    figure = compared_figure(compared)
    links = {point.kernel: f"#row-{point.kernel}" for point in figure.points}

    def svg() -> str:
        return render_svg(figure, "page", heading=False, links=links)

    return (Figure(svg if figure.points else None, "Roofline of both sides", figure.notes),)


def compared_figure(compared: Compared) -> RooflineFigure:
    """Return the roofline of both sides at the level that most kernels have, preferably DRAM."""
    level, places = max(
        ((level, _places(compared, level)) for level in reversed(LEVELS)), key=lambda choice: len(choice[1])
    )
    drawn = places[:_MOST_KERNELS]
    arrows_of = [place for place in drawn if place.change.is_changed][:_MOST_ARROWS]
    points = tuple(_points(compared, drawn, arrows_of))
    arrows = tuple(_arrows(points, {place.change.id for place in arrows_of}))
    roofs, apart = _roofs(compared, drawn, points, level)
    return RooflineFigure(
        id="comparison",
        title=f"{LEVEL_NAMES[level]} roofline, base and new",
        subtitle=f"{count_text(len(drawn), 'kernel')} drawn, {count_text(len(arrows_of), 'arrow')} from base to new",
        device=0,
        ceiling="new" if apart else _OPTION,
        levels=(level,),
        unit="OP" if points and all(work_unit(point.path, per_second=False) == "OP" for point in points) else "FLOP",
        sized=True,
        intensity_range=roofs.intensities,
        flop_per_s_range=roofs.rates,
        roofs=roofs.lines,
        ridges=roofs.ridges,
        points=points,
        left_out=(),
        notes=tuple(_notes(compared, places, apart=apart, arrows=bool(arrows))),
        arrows=arrows,
    )


def _places(compared: Compared, level: Level) -> list[_Place]:
    """Return the changes that have a point at a level on any side, those with most effect on the run first."""
    integers = _only_integers(compared, level)
    places = []
    for change, pair in zip(compared.comparison.kernels, compared.pairs, strict=True):
        new = _spoken(pair.new, level, integers=integers)
        base = _spoken(pair.base, level, new[1].path if new is not None else None, integers=integers)
        if base is not None or new is not None:
            places.append(_Place(change, base, new))
    return places


def _only_integers(compared: Compared, level: Level) -> bool:
    """Return whether integers are all that these kernels compute: then, and only then, they are drawn."""
    kernels = [kernel for pair in compared.pairs for kernel in (*pair.base, *pair.new)]
    mains = [main_point(kernel.representative, level, _OPTION) for kernel in kernels]
    return all(main.path == "int32" for main in mains if main is not None)


def _spoken(
    kernels: Sequence[SideKernel], level: Level, path: str | None = None, *, integers: bool
) -> tuple[SideKernel, RooflinePoint] | None:
    """Return the longest kernel that has a point, with its point of the path, or else its main one."""
    for kernel in sorted(kernels, key=lambda kernel: -(kernel.total_s or 0.0)):
        representative = kernel.representative
        point = main_point(representative, level, _OPTION, path) if path is not None else None
        point = point or main_point(representative, level, _OPTION)
        if point is not None and (integers or point.path != "int32"):
            return kernel, point
    return None


def _points(compared: Compared, drawn: Sequence[_Place], arrows_of: Sequence[_Place]) -> list[FigurePoint]:
    total_s = compared.base.total_s or compared.new.total_s
    with_arrow = {place.change.id for place in arrows_of}
    points = []
    for place in drawn:
        marked = place.change.id in with_arrow
        if place.base is not None and (marked or place.new is None or len(drawn) <= _BOTH_UP_TO):
            points.append(_point(place, "base", total_s, marked=marked))
        if place.new is not None:
            points.append(_point(place, "new", total_s, marked=marked))
    return points


def _point(place: _Place, side: Literal["base", "new"], total_s: float | None, *, marked: bool) -> FigurePoint:
    spoken = place.new if side == "new" else place.base
    assert spoken is not None
    kernel, point = spoken
    time_s = kernel.total_s
    name = cut_middle(printable(place.change.label), _NAME_LENGTH)
    return FigurePoint(
        kernel=place.change.id,
        label=place.change.label,
        source=side,
        caption=f"{name}, {_verdict(place.change)}",
        path=point.path,
        level=point.level,
        intensity=point.intensity,
        flop_per_s=point.flop_per_s,
        share=time_s / total_s if time_s is not None and total_s else None,
        roof_flop_per_s=point.roof_flop_per_s,
        fraction_of_roof=point.fraction_of_roof,
        ceiling=point.ceiling,
        bound=point.bound,
        estimated=False,
        uncertified=False,
        main=marked and (side == "new" or place.new is None),
        side=side,
        faint=not marked,
    )


def _verdict(change: KernelChange) -> str:
    if change.time.verdict in ("slower", "faster", "new", "gone"):
        return time_text(change.time)
    return f"time {change.time.verdict}, work {change.work.verdict}"


def _arrows(points: Sequence[FigurePoint], changed: set[int]) -> list[Arrow]:
    before = {point.kernel: point for point in points if point.side == "base"}
    return [
        Arrow(before[point.kernel], point)
        for point in points
        if point.side == "new" and point.kernel in changed and point.kernel in before
    ]


def _roofs(
    compared: Compared, drawn: Sequence[_Place], points: Sequence[FigurePoint], level: Level
) -> tuple[DrawnRoofs, bool]:
    """Return the ceilings of both sides, and whether they are drawn apart: base dashed, new solid."""
    paths = {point.path for point in points}
    base, new = (
        shown_ceilings(_ceilings(side, [spoken[0] for spoken in chosen if spoken is not None]), paths, (level,))
        for side, chosen in (
            (compared.base, [place.base for place in drawn]),
            (compared.new, [place.new for place in drawn]),
        )
    )
    if not base or not new or _alike(base, new):
        return drawn_roofs(new or base, points), False
    # A figure distinguishes ceilings by their origin; that of the base side is drawn as "rated", which is dashed.
    both = [*(replace(ceiling, origin="rated") for ceiling in base), *new]
    roofs = drawn_roofs(both, points)
    ridges = (replace(ridge, origin="base" if ridge.origin == "rated" else "new") for ridge in roofs.ridges)
    return replace(roofs, lines=tuple(map(_named_line, roofs.lines)), ridges=tuple(ridges)), True


def _ceilings(side: Side, kernels: Sequence[SideKernel]) -> list[Ceiling]:
    """Return the at-clock ceilings of the GPU that ran the longest of the drawn kernels of a side."""
    if not kernels:
        return []
    longest = max(kernels, key=lambda kernel: kernel.total_s or 0.0)
    ceilings = side.runs[longest.run].session.ceilings
    return [item for item in ceilings if item.origin == _OPTION and item.device == longest.representative.device]


def _alike(base: Sequence[Ceiling], new: Sequence[Ceiling]) -> bool:
    heights = [{ceiling.id: ceiling.value for ceiling in side} for side in (base, new)]
    common = heights[0].keys() & heights[1].keys()
    return bool(common) and all(abs(heights[0][name] / heights[1][name] - 1) <= _ALIKE for name in common)


def _named_line(roof: RoofLine) -> RoofLine:
    side = "base" if roof.origin == "rated" else "new"
    value = format_si(roof.value, "B/s" if roof.level else work_unit(roof.path or ""))
    return replace(roof, id=f"{side}/{roof.level or roof.path}", origin=side, value_text=f"{value}, {side}")


def _notes(compared: Compared, places: Sequence[_Place], *, apart: bool, arrows: bool) -> list[str]:
    notes = ["Each arrow leads from a kernel on the base side to the same kernel on the new side."] if arrows else []
    if not places:
        return [_without_point(compared, set())] if compared.pairs else []
    if len(places) > _BOTH_UP_TO:
        notes.append("A faint kernel is drawn as it is on the new side; where it is gone, as it was.")
    if apart:
        gpus = [_gpu(side) for side in (compared.base, compared.new)]
        whose = "of another GPU" if gpus[0] != gpus[1] else "at another SM clock"
        notes.append(f"The ceilings differ, they are {whose}: dashed is base ({gpus[0]}), solid is new ({gpus[1]}).")
    if compared.base.total_s:
        total = format_si(compared.base.total_s, "s")
        notes.append(f"Areas: time of a {compared.base.per}, as a share of the base's {total}.")
    if len(places) < len(compared.pairs):
        notes.append(_without_point(compared, {place.change.id for place in places}))
    if len(places) > _MOST_KERNELS:
        notes.append(f"Drawn: the {_MOST_KERNELS} kernels with most effect on the run.")
    return notes


def _without_point(compared: Compared, drawn: set[int]) -> str:
    """Write how many kernels have no point, and why most of them have none."""
    numbered = zip(compared.comparison.kernels, compared.pairs, strict=True)
    absent = [(*pair.new, *pair.base)[0].representative for change, pair in numbered if change.id not in drawn]
    (why, _), *others = Counter(without_point(kernel).why for kernel in absent).most_common()
    reason = f"{'mostly ' if others else ''}{why}"
    if len(absent) == len(compared.pairs):
        return f"No kernel has a point: {reason}."
    return f"Not drawn: {len(absent)} of {count_text(len(compared.pairs), 'kernel')}: {reason}."


def _gpu(side: Side) -> str:
    """Name the GPUs of a side."""
    devices = [device for run in side.runs for device in run.session.devices]
    names = dict.fromkeys(printable(device.name or "GPU of unknown name") for device in devices)
    return ", ".join(names) or "GPU of unknown name"
