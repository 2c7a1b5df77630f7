"""Rooflines as pure data: ceilings, points, ranges and notes of a figure, in FLOP/byte and FLOP/s. Draws nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.headline import by_time, main_point
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Ceiling, KernelProfile, RooflinePoint, Session, Work
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.present.figure_notes import certificate_notes, clock_notes, left_out_notes, too_many_notes
from gpuprof.present.figure_roofs import at_kernel_clock, drawn_roofs, shown_ceilings
from gpuprof.present.roofline_figure import FigurePoint, LeftOut, RooflineFigure
from gpuprof.units import format_percent, format_si
from gpuprof.words.profile_values import (
    LEVEL_NAMES,
    above_ceiling,
    count_text,
    intensity_text,
    missing_work,
    paths_text,
    rate_text,
    remedy_for,
    row_noun,
)
from gpuprof.words.source_names import in_source, source_name

_MEANINGFUL = 0.1
"""A second path is drawn if its units are at least this fraction as busy as those of the kernel's main path."""

_CEILING_FROM = {
    **dict.fromkeys(("at-clock", "rated"), "give a GPU spec with --spec NAME|FILE"),
    "measured": "gpuprof characterize measures them on that GPU",
}
"""What gives a ceiling that is missing, by its origin."""

_Placed = tuple[KernelProfile, RooflinePoint]


def overview(
    session: Session, device: int = 0, level: str = "dram", ceiling: str = "at-clock", most: int | None = None
) -> RooflineFigure:
    """Place all kernels of a device at one memory level: a point for each kernel, more where several paths matter.

    At `most` so many kernels are drawn, those with most time of the ones that have a point.
    """
    kernels = [kernel for kernel in session.kernels if kernel.device == device]
    ceilings = [item for item in session.ceilings if item.device == device]
    placed = _placed(kernels, level, ceiling)
    drawn = placed[:most]
    points = tuple(_overview_points(session, drawn, ceilings))
    left_out = _left_out(kernels, {kernel.id for kernel, _ in placed}, level, ceiling)
    shown = shown_ceilings(ceilings, {point.path for point in points}, (level,))
    roofs = drawn_roofs(shown, points)
    return RooflineFigure(
        id=f"overview-{device}-{level}",
        title=f"{_device_name(session, device)}: {LEVEL_NAMES[level]} roofline",
        subtitle=_overview_subtitle(kernels, ceiling, points),
        device=device,
        ceiling=ceiling,
        levels=(level,),
        unit=_unit(points),
        sized=True,
        intensity_range=roofs.intensities,
        flop_per_s_range=roofs.rates,
        roofs=roofs.lines,
        ridges=roofs.ridges,
        points=points,
        left_out=left_out,
        notes=(
            *clock_notes(kernels, points, shown),
            *certificate_notes(points),
            *left_out_notes(session, left_out),
            *too_many_notes(kernels, len(drawn), len(placed)),
        ),
    )


def hierarchical(session: Session, kernel_id: int, ceiling: str = "at-clock") -> RooflineFigure:
    """Place the main path of one kernel at L1, L2 and DRAM, under the ceilings at the clock that it ran at."""
    kernel = next(kernel for kernel in session.kernels if kernel.id == kernel_id)
    main = _main_of_any_level(kernel, ceiling)
    points = tuple(
        _figure_point(kernel, point, main=point.level == main.level, caption=_level_caption(point))
        for point in sorted(kernel.roofline, key=lambda point: LEVELS.index(point.level))
        if main is not None and point.path == main.path and point.ceiling == ceiling
    )
    ceilings = [at_kernel_clock(item, kernel) for item in session.ceilings if item.device == kernel.device]
    paths = {main.path} if main is not None else set()
    levels = tuple(point.level for point in points) or LEVELS
    roofs = drawn_roofs(shown_ceilings(ceilings, paths, levels), points)
    return RooflineFigure(
        id=f"kernel-{kernel.id}",
        title=f"{kernel.label} #{kernel.id}{in_source(session, kernel)}",
        subtitle=_kernel_subtitle(kernel, main),
        device=kernel.device,
        ceiling=ceiling,
        levels=levels,
        unit=_unit(points),
        sized=False,
        intensity_range=roofs.intensities,
        flop_per_s_range=roofs.rates,
        roofs=roofs.lines,
        ridges=roofs.ridges,
        points=points,
        left_out=() if points else _left_out([kernel], set(), "dram", ceiling),
        notes=(*_level_notes(kernel, points, ceiling), *certificate_notes(points)),
    )


def without_point(kernel: KernelProfile, level: str = "dram", ceiling: str = "at-clock") -> Missing:
    """Say why a kernel has no floating-point roofline point at a level, and what would give it one."""
    impossible = above_ceiling(kernel, level)
    if impossible is not None:
        return impossible
    name = LEVEL_NAMES[level]
    counted = [item for item in kernel.work if item.path != "int32" and (item.flop or item.flop_per_s)]
    unknown = [path for path in missing_work(kernel) if path != "int32"]
    traffic = next((item for item in kernel.traffic if item.level == level), None)
    if not kernel.work:
        why, how = "work not collected", remedy_for(kernel, "work.fp32")
    elif not counted and unknown:
        why, how = f"{paths_text(unknown)} not collected", remedy_for(kernel, f"work.{unknown[0]}")
    elif not counted:
        why, how = "no floating-point work", ""
    elif traffic is None:
        why, how = f"{name} traffic not collected", remedy_for(kernel, f"traffic.{level}")
    elif not traffic.bytes and not traffic.bytes_per_s:
        why, how = f"no {name} traffic", ""
    elif kernel.duration_s is None and (
        traffic.bytes_per_s is None or all(item.flop_per_s is None for item in counted)
    ):
        why, how = "duration not collected", remedy_for(kernel, "duration")
    elif ceiling == "rated" and level != "dram":
        why, how = f"datasheets rate no {name} bandwidth", "choose --ceiling at-clock"
    else:
        why, how = f"no {ceiling} ceiling known for its work", _CEILING_FROM[ceiling]
    return Missing("roofline point", why, how)


def _placed(kernels: Sequence[KernelProfile], level: str, ceiling: str) -> list[_Placed]:
    """Return the kernels that have a point, longest first, with their main one."""
    integers = _only_integers(kernels, level, ceiling)
    mains = ((kernel, _main(kernel, level, ceiling, integers=integers)) for kernel in by_time(kernels))
    return [(kernel, main) for kernel, main in mains if main is not None]


def _overview_points(session: Session, placed: Sequence[_Placed], ceilings: Sequence[Ceiling]) -> Iterator[FigurePoint]:
    repeated = _repeated_labels(session)
    for kernel, main in placed:
        caption, source = _caption(kernel, repeated), source_name(session, kernel)
        for point in _meaningful(kernel, main, ceilings):
            yield _figure_point(kernel, point, main=point.path == main.path, caption=caption, source=source)


def _repeated_labels(session: Session) -> set[str]:
    return {label for label, count in Counter(kernel.label for kernel in session.kernels).items() if count > 1}


def _caption(kernel: KernelProfile, repeated: set[str]) -> str:
    return f"{kernel.label} #{kernel.id}" if kernel.label in repeated else kernel.label


def _level_caption(point: RooflinePoint) -> str:
    intensity = intensity_text(point.path, point.intensity)
    return f"{LEVEL_NAMES[point.level]}: {intensity}, {format_percent(point.fraction_of_roof)}"


def _only_integers(kernels: Iterable[KernelProfile], level: str, ceiling: str) -> bool:
    """Tell whether integers are all that these kernels compute: then, and only then, they are drawn."""
    mains = [main_point(kernel, level, ceiling) for kernel in kernels]
    return all(main.path == "int32" for main in mains if main is not None)


def _main(kernel: KernelProfile, level: str, ceiling: str, *, integers: bool) -> RooflinePoint | None:
    main = main_point(kernel, level, ceiling)
    return main if main is not None and (integers or main.path != "int32") else None


def _main_of_any_level(kernel: KernelProfile, ceiling: str) -> RooflinePoint | None:
    """Return the main point at the level furthest from the SM that the kernel has."""
    mains = (main_point(kernel, level, ceiling) for level in reversed(LEVELS))
    return next((point for point in mains if point is not None), None)


def _meaningful(kernel: KernelProfile, main: RooflinePoint, ceilings: Sequence[Ceiling]) -> list[RooflinePoint]:
    """Return the main point, and those of other paths whose units are not much less busy than those of the main one."""
    peaks = {
        ceiling.path: ceiling.value for ceiling in ceilings if ceiling.origin == "at-clock" and ceiling.path is not None
    }

    def busy(point: RooflinePoint) -> float:
        return point.flop_per_s / peaks[point.path] if point.path in peaks else 0.0

    others = [
        point
        for point in kernel.roofline
        if (point.level, point.ceiling) == (main.level, main.ceiling)
        and point.path not in {main.path, "int32"}
        and busy(point) > 0
        and busy(point) >= _MEANINGFUL * busy(main)
    ]
    return [main, *sorted(others, key=lambda point: PATHS.index(point.path))]


def _figure_point(
    kernel: KernelProfile, point: RooflinePoint, *, main: bool, caption: str, source: str = ""
) -> FigurePoint:
    bases = {item.basis for item in kernel.work if item.path == point.path}
    bases |= {item.basis for item in kernel.traffic if item.level == point.level}
    return FigurePoint(
        kernel=kernel.id,
        label=kernel.label,
        source=source,
        caption=caption,
        path=point.path,
        level=point.level,
        intensity=point.intensity,
        flop_per_s=point.flop_per_s,
        share=kernel.time_share,
        roof_flop_per_s=point.roof_flop_per_s,
        fraction_of_roof=point.fraction_of_roof,
        ceiling=point.ceiling,
        bound=point.bound,
        estimated="estimated" in bases,
        uncertified=any(_uncertified(item) for item in kernel.work if item.path == point.path),
        main=main,
    )


def _uncertified(work: Work) -> bool:
    """Tell whether nothing vouches for the counters of work. Estimates say so themselves; old sessions do not know."""
    return work.certificate == "none" and work.basis != "estimated"


def _unit(points: Sequence[FigurePoint]) -> str:
    units = {work_unit(point.path, per_second=False) for point in points}
    return "OP" if units == {"OP"} else "FLOP"


def _device_name(session: Session, device: int) -> str:
    gpu = next((entry for entry in session.devices if entry.id == device), None)
    if gpu is None or gpu.name is None:
        capability = gpu.compute_capability if gpu is not None else None
        return f"GPU of compute capability {capability}" if capability else "GPU of unknown name"
    return gpu.name


def _overview_subtitle(kernels: Sequence[KernelProfile], ceiling: str, points: Sequence[FigurePoint]) -> str:
    if not kernels:
        return "no kernel profiled"
    times = [kernel.time_total_s for kernel in kernels if kernel.time_total_s is not None]
    drawn = len({point.kernel for point in points})
    of_all = f"{drawn} of " if drawn < len(kernels) else ""
    parts = [f"{of_all}{count_text(len(kernels), *row_noun(kernels))} drawn"]
    if times:
        replays = all(kernel.duration_source == GRAPH_REPLAY for kernel in kernels)
        parts.append(f"{format_si(sum(times), 's')} {'in replays under ncu' if replays else 'GPU time'}")
    if points:
        which = "the roofline at the kernel's clock" if ceiling == "at-clock" else f"the {ceiling} roofline"
        parts.append(f"percentages of {which}")
    return ", ".join(parts)


def _kernel_subtitle(kernel: KernelProfile, main: RooflinePoint | None) -> str:
    parts = [format_si(kernel.duration_s, "s")] if kernel.duration_s is not None else []
    if kernel.time_share is not None:
        parts.append(f"{format_percent(kernel.time_share)} of the time")
    if main is not None:
        parts.append(f"{path_name(main.path)} {rate_text(main.path, main.flop_per_s)}")
        parts.append(
            f"{format_percent(main.fraction_of_roof)} of the {LEVEL_NAMES[main.level]} roofline "
            f"{main.ceiling.replace('-', ' ')}"
        )
    return ", ".join(parts)


def _left_out(kernels: Sequence[KernelProfile], shown: set[int], level: str, ceiling: str) -> tuple[LeftOut, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for kernel in kernels:
        if kernel.id not in shown:
            reason = without_point(kernel, level, ceiling)
            groups.setdefault((reason.why, reason.how), []).append(kernel.id)
    return tuple(LeftOut(tuple(ids), why, how or None) for (why, how), ids in groups.items())


def _level_notes(kernel: KernelProfile, points: Sequence[FigurePoint], ceiling: str) -> Iterator[str]:
    if not points:
        reason = without_point(kernel, ceiling=ceiling)
        yield f"No point: {reason.why}" + (f"; {reason.how}." if reason.how else ".")
        return
    for level in LEVELS:
        if all(point.level != level for point in points) and all(traffic.level != level for traffic in kernel.traffic):
            yield f"{LEVEL_NAMES[level]} traffic not collected; {remedy_for(kernel, f'traffic.{level}')}."
