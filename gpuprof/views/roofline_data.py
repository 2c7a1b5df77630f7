"""Rooflines of a session as data: from its kernels to ceilings, points, ranges and notes. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.drawn import placed_point, recommended_paths
from gpuprof.hardware.specs import LEVELS
from gpuprof.model.headline import main_point
from gpuprof.model.kernel_ceilings import at_kernel_clock
from gpuprof.model.session import Ceiling, KernelProfile, RooflinePoint, Session
from gpuprof.text import cut_middle
from gpuprof.units import format_percent
from gpuprof.views.kernel_limits import drawn_kernels, numbered_kernels, shown_limit
from gpuprof.views.roofline_values import LeftOut, Roofline, RooflinePlace, shown_ceilings, with_ceilings
from gpuprof.words.profile_values import (
    LEVEL_NAMES,
    count_text,
    duration_text,
    intensity_text,
    row_noun,
)
from gpuprof.words.roofline_points import (
    certificate_notes,
    clock_notes,
    left_out_note,
    level_notes,
    too_many_notes,
    without_point,
)
from gpuprof.words.source_names import in_source, source_name
from gpuprof.words.verdict import limit_and_busiest

# A second path is drawn if its units are at least this fraction as busy as those of the kernel's main path.
_MEANINGFUL = 0.1
_KEY_NAME = 60


def overview(
    session: Session, device: int = 0, level: str = "dram", ceiling: str = "at-clock", most: int | None = None
) -> Roofline:
    """Place all kernels of a device at one memory level: a point for each kernel, more if several paths matter.

    At most `most` kernels are drawn, those with most time. A kernel with a number also has a point at L2 or L1 if that
    level is what limits it.
    """
    kernels = [kernel for kernel in session.kernels if kernel.device == device]
    placed = []
    others = []
    for kernel in kernels:
        if placed_point(kernel, level, ceiling) is not None:
            placed.append(kernel)
        else:
            others.append(kernel)
    drawn = drawn_kernels(session, placed, most)
    ceilings = [item for item in session.ceilings if item.device == device]
    numbered = numbered_kernels(session, placed)
    points: list[RooflinePlace] = []
    for kernel in drawn:
        points += _overview_points(session, kernel, level, ceiling, ceilings, is_numbered=kernel.id in numbered)
    left_out = _left_out(others, level, ceiling)
    levels = tuple(item for item in LEVELS if item in {level, *(point.level for point in points)})
    paths = {point.path for point in points} | recommended_paths(drawn, ceilings)
    shown = shown_ceilings(ceilings, paths, levels)
    names = {gpu.id: gpu.name for gpu in session.devices}
    of_all = f"{len(drawn)} of " if len(drawn) < len(kernels) else ""
    which = "the roofline at the kernel's clock" if ceiling == "at-clock" else f"the {ceiling} roofline"
    figure = Roofline(
        id=f"overview-{device}-{level}",
        title=f"{names.get(device) or 'GPU of unknown name'}: {LEVEL_NAMES[level]} roofline",
        subtitle=f"{of_all}{count_text(len(kernels), *row_noun(kernels))} drawn, percentages of {which}",
        device=device,
        ceiling=ceiling,
        levels=levels,
        points=tuple(points),
        left_out=left_out,
        notes=(
            *clock_notes(drawn, shown),
            *_hollow_notes(points),
            *(left_out_note(session, group.kernels, group.why, group.how) for group in left_out),
            *too_many_notes(kernels, len(drawn), len(placed)),
        ),
    )
    return with_ceilings(figure, shown)


def hierarchical(session: Session, kernel_id: int, ceiling: str = "at-clock") -> Roofline:
    """Place the main path of one kernel at L1, L2 and DRAM, under the ceilings at the clock that it ran at."""
    kernel = next(kernel for kernel in session.kernels if kernel.id == kernel_id)
    main = None
    for level in reversed(LEVELS):
        main = main or placed_point(kernel, level, ceiling)
    points = []
    for level in LEVELS:
        point = main_point(kernel, level, ceiling, main.path) if main is not None else None
        if point is not None:
            intensity = intensity_text(point.path, point.intensity)
            text = f"{intensity}, {format_percent(point.fraction_of_roof)} of the {LEVEL_NAMES[level]} roofline"
            points.append(place_of(session, kernel, point, key=text))
    levels = tuple(point.level for point in points) or LEVELS
    ceilings = [at_kernel_clock(item, kernel) for item in session.ceilings if item.device == kernel.device]
    paths = {point.path for point in points} | recommended_paths([kernel], ceilings)
    share = f", {format_percent(kernel.time_share)} of the time" if kernel.time_share is not None else ""
    figure = Roofline(
        id=f"kernel-{kernel.id}",
        title=f"{kernel.label} #{kernel.id}{in_source(session, kernel)}",
        subtitle=f"{duration_text(kernel.duration_s)}{share}, {shown_limit(session, kernel).text}",
        device=kernel.device,
        ceiling=ceiling,
        levels=levels,
        points=tuple(points),
        sized=False,
        left_out=() if points else _left_out([kernel], "dram", ceiling),
        notes=(*level_notes(kernel, {point.level for point in points}, ceiling), *_hollow_notes(points)),
    )
    return with_ceilings(figure, shown_ceilings(ceilings, paths, levels))


def place_of(session: Session, kernel: KernelProfile, point: RooflinePoint, key: str = "") -> RooflinePlace:
    """Return a point of a kernel as a roofline shows it, with the limit by the kernel's diagnosis."""
    work = [item for item in kernel.work if item.path == point.path]
    traffic = [item for item in kernel.traffic if item.level == point.level]
    limit = shown_limit(session, kernel)
    return RooflinePlace(
        kernel=kernel.id,
        label=kernel.label,
        source=source_name(session, kernel),
        path=point.path,
        level=point.level,
        intensity=point.intensity,
        flop_per_s=point.flop_per_s,
        share=kernel.time_share,
        roof_flop_per_s=point.roof_flop_per_s,
        fraction_of_roof=point.fraction_of_roof,
        ceiling=point.ceiling,
        ridge="left" if point.bound == "memory" else "right",
        limit=limit.text,
        colour=limit.colour,
        estimated="estimated" in [*(item.basis for item in work), *(item.basis for item in traffic)],
        # Estimates are marked as such; old sessions have no certificate (None).
        uncertified=any(item.certificate == "none" and item.basis != "estimated" for item in work),
        key=key,
    )


def _overview_points(
    session: Session, kernel: KernelProfile, level: str, ceiling: str, ceilings: Sequence[Ceiling], is_numbered: bool
) -> Iterator[RooflinePlace]:
    """Yield the main point, those of other paths that matter, and that of the level that limits a numbered kernel."""
    main = placed_point(kernel, level, ceiling)
    if main is None:
        return
    at_limit = None
    limit = shown_limit(session, kernel).subject
    if is_numbered and limit is not None and limit != level:
        at_limit = main_point(kernel, limit, ceiling, main.path)
    key = _key_text(session, kernel, main, at_limit) if is_numbered else ""
    yield place_of(session, kernel, main, key=key)
    for point in _meaningful(kernel, main, ceilings):
        yield place_of(session, kernel, point)
    if at_limit is not None:
        yield place_of(session, kernel, at_limit, key=key)


def _meaningful(kernel: KernelProfile, main: RooflinePoint, ceilings: Sequence[Ceiling]) -> Iterator[RooflinePoint]:
    """Yield the points of other paths whose units are not much less busy than those of the main one."""
    peaks = {item.path: item.value for item in ceilings if item.origin == "at-clock" and item.path}
    if main.path not in peaks:
        return
    least = _MEANINGFUL * main.flop_per_s / peaks[main.path]
    for path, peak in peaks.items():
        point = main_point(kernel, main.level, main.ceiling, path)
        if point is not None and path not in (main.path, "int32") and point.flop_per_s / peak >= least:
            yield point


def _key_text(session: Session, kernel: KernelProfile, main: RooflinePoint, at_limit: RooflinePoint | None) -> str:
    name = cut_middle(kernel.label, _KEY_NAME) + in_source(session, kernel)
    of_roof = f"{format_percent(main.fraction_of_roof)} of the {LEVEL_NAMES[main.level]} roofline"
    if at_limit is not None:
        of_roof += f", {format_percent(at_limit.fraction_of_roof)} at {LEVEL_NAMES[at_limit.level]}"
    return f"{name}: {of_roof}; {limit_and_busiest(kernel, session.only_times, {main.level: main.fraction_of_roof})}"


def _hollow_notes(points: Sequence[RooflinePlace]) -> Iterator[str]:
    if any(point.estimated for point in points):
        yield "Hollow: work or traffic is an estimate."
    yield from certificate_notes({point.path for point in points if point.uncertified})


def _left_out(kernels: Sequence[KernelProfile], level: str, ceiling: str) -> tuple[LeftOut, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for kernel in kernels:
        reason = without_point(kernel, level, ceiling)
        groups.setdefault((reason.why, reason.how), []).append(kernel.id)
    return tuple(LeftOut(tuple(ids), why, how or None) for (why, how), ids in groups.items())
