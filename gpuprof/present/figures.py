"""Rooflines as pure data: the roofs, points, ranges and notes of a figure, in FLOP/byte and FLOP/s. Draws nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.headline import by_time, main_point
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Ceiling, KernelProfile, RooflinePoint, Session, Work
from gpuprof.present import words
from gpuprof.present.plot_text import shortened
from gpuprof.present.source_names import in_source, source_name
from gpuprof.units import format_percent, format_si

ORIGINS = ("rated", "at-clock", "measured")
STYLES = {"rated": "dashed", "at-clock": "solid", "measured": "bold"}

_MEANINGFUL = 0.1
"""A second path is drawn if its units are at least this fraction as busy as those of the kernel's main path."""

_CLOCK_TOLERANCE = 0.05
"""Kernels whose clock differs more than this from the drawn roof's clock are mentioned."""

_NAME_LENGTH = 80
"""Of a kernel's name in a note."""

_NO_RANGE = ((0.1, 1e3), (1e9, 1e13))

Extent = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RoofLine:
    """One ceiling as a line inside the figure's ranges: a compute path's flat roof, or a level's bandwidth slope."""

    id: str
    kind: str
    origin: str
    path: str | None
    level: str | None
    name: str
    value: float
    clock_hz: float | None
    value_text: str
    style: str
    line: tuple[Extent, Extent]


@dataclass(frozen=True, slots=True)
class Ridge:
    """Where a bandwidth slope and a flat roof of one origin meet."""

    origin: str
    path: str
    level: str
    intensity: float
    flop_per_s: float


@dataclass(frozen=True, slots=True)
class FigurePoint:
    """One path of a kernel at one level. `caption` is what is written beside it; `main` the path that speaks for it.

    `source` is the short name of the kernel's file; empty where all are of one file, and in a figure of one kernel.
    `uncertified`: nothing vouches for the counters of the path's work.
    """

    kernel: int
    label: str
    source: str
    caption: str
    path: str
    level: str
    intensity: float
    flop_per_s: float
    share: float | None
    roof_flop_per_s: float
    fraction_of_roof: float
    ceiling: str
    bound: str
    estimated: bool
    uncertified: bool
    main: bool

    @property
    def hollow(self) -> bool:
        """Tell whether it is drawn hollow: its place is less sure than that of others."""
        return self.estimated or self.uncertified


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Kernels that have no point, with the one reason they share and what would give them one."""

    kernels: tuple[int, ...]
    why: str
    how: str | None


@dataclass(frozen=True, slots=True)
class RooflineFigure:
    """Everything that a roofline shows. `sized`: the area of a point is the kernel's share of the time."""

    id: str
    title: str
    subtitle: str
    device: int
    ceiling: str
    levels: tuple[str, ...]
    unit: str
    sized: bool
    intensity_range: Extent
    flop_per_s_range: Extent
    roofs: tuple[RoofLine, ...]
    ridges: tuple[Ridge, ...]
    points: tuple[FigurePoint, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Limit:
    """A ceiling before it becomes a line."""

    origin: str
    path: str | None
    level: str | None
    value: float
    clock_hz: float | None


def overview(session: Session, device: int = 0, level: str = "dram", ceiling: str = "at-clock") -> RooflineFigure:
    """Place all kernels of a device at one memory level: a point for each kernel, more where several paths matter."""
    kernels = [kernel for kernel in session.kernels if kernel.device == device]
    limits = [_of_ceiling(item) for item in session.ceilings if item.device == device]
    repeated = _repeated_labels(session)
    integers = _only_integers(kernels, level, ceiling)
    points = [
        _figure_point(
            kernel,
            point,
            main=point.path == main.path,
            caption=_caption(kernel, repeated),
            source=source_name(session, kernel),
        )
        for kernel in by_time(kernels)
        if (main := _main(kernel, level, ceiling, integers=integers)) is not None
        for point in _meaningful(kernel, main, limits)
    ]
    left_out = _left_out(kernels, {point.kernel for point in points}, level, ceiling)
    shown = _shown_limits(limits, {point.path for point in points}, (level,))
    return _assemble(
        figure_id=f"overview-{device}-{level}",
        title=f"{_device_name(session, device)}: roofline at {words.LEVEL_NAMES[level]}",
        subtitle=_overview_subtitle(kernels, ceiling, points),
        device=device,
        ceiling=ceiling,
        levels=(level,),
        sized=True,
        limits=shown,
        points=points,
        left_out=left_out,
        notes=[
            *_clock_notes(kernels, points, shown),
            *_certificate_notes(points),
            *_left_out_notes(session, left_out),
        ],
    )


def hierarchical(session: Session, kernel_id: int, ceiling: str = "at-clock") -> RooflineFigure:
    """Place the main path of one kernel at L1, L2 and DRAM, under the roofs of the clock that it ran at."""
    kernel = next(kernel for kernel in session.kernels if kernel.id == kernel_id)
    main = _main_of_any_level(kernel, ceiling)
    points = [
        _figure_point(kernel, point, main=point.level == main.level, caption=_level_caption(point))
        for point in sorted(kernel.roofline, key=lambda point: LEVELS.index(point.level))
        if main is not None and point.path == main.path and point.ceiling == ceiling
    ]
    limits = [_of_ceiling(item) for item in session.ceilings if item.device == kernel.device]
    limits = [_at_kernel_clock(limit, kernel) for limit in limits]
    paths = {main.path} if main is not None else set()
    return _assemble(
        figure_id=f"kernel-{kernel.id}",
        title=f"{kernel.label} #{kernel.id}{in_source(session, kernel)}",
        subtitle=_kernel_subtitle(kernel, main),
        device=kernel.device,
        ceiling=ceiling,
        levels=tuple(point.level for point in points) or LEVELS,
        sized=False,
        limits=_shown_limits(limits, paths, tuple(point.level for point in points) or LEVELS),
        points=points,
        left_out=() if points else _left_out([kernel], set(), "dram", ceiling),
        notes=[*_level_notes(kernel, points), *_certificate_notes(points)],
    )


def without_point(kernel: KernelProfile, level: str = "dram", ceiling: str = "at-clock") -> Missing:
    """Say why a kernel has no floating-point roofline point at a level, and what would give it one."""
    name = words.LEVEL_NAMES[level]
    done = [item for item in kernel.work if item.path != "int32" and (item.flop or item.flop_per_s)]
    unknown = [path for path in words.missing_work(kernel) if path != "int32"]
    moved = next((item for item in kernel.traffic if item.level == level), None)
    if not kernel.work:
        why, how = "work not collected", words.remedy(kernel, "work.fp32")
    elif not done and unknown:
        why, how = f"{words.work_of(unknown)} not collected", words.remedy(kernel, f"work.{unknown[0]}")
    elif not done:
        why, how = "no floating-point work", ""
    elif moved is None:
        why, how = f"{name} traffic not collected", words.remedy(kernel, f"traffic.{level}")
    elif not moved.bytes and not moved.bytes_per_s:
        why, how = f"no {name} traffic", ""
    elif kernel.duration_s is None and (moved.bytes_per_s is None or all(item.flop_per_s is None for item in done)):
        why, how = "duration not collected", words.remedy(kernel, "duration")
    elif ceiling == "rated" and level != "dram":
        why, how = f"datasheets rate no {name} bandwidth", "choose --ceiling at-clock"
    else:
        why, how = f"no {ceiling.replace('-', ' ')} roof known for its work", "give a GPU spec with --spec NAME|FILE"
    return Missing("roofline point", why, how)


def _repeated_labels(session: Session) -> set[str]:
    return {label for label, count in Counter(kernel.label for kernel in session.kernels).items() if count > 1}


def _caption(kernel: KernelProfile, repeated: set[str]) -> str:
    return f"{kernel.label} #{kernel.id}" if kernel.label in repeated else kernel.label


def _level_caption(point: RooflinePoint) -> str:
    unit = words.work_unit(point.path, per_second=False)
    intensity = format_si(point.intensity, f"{unit}/B")
    return f"{words.LEVEL_NAMES[point.level]}: {intensity}, {format_percent(point.fraction_of_roof)}"


def _only_integers(kernels: Iterable[KernelProfile], level: str, ceiling: str) -> bool:
    """Tell whether integers are all that these kernels compute: then, and only then, they are drawn."""
    mains = [main_point(kernel, level, ceiling) for kernel in kernels]
    return all(main.path == "int32" for main in mains if main is not None)


def _main(kernel: KernelProfile, level: str, ceiling: str, *, integers: bool) -> RooflinePoint | None:
    main = main_point(kernel, level, ceiling)
    return main if main is not None and (integers or main.path != "int32") else None


def _main_of_any_level(kernel: KernelProfile, ceiling: str) -> RooflinePoint | None:
    """Return the main point at the level furthest from the SM that the kernel has."""
    found = (main_point(kernel, level, ceiling) for level in reversed(LEVELS))
    return next((point for point in found if point is not None), None)


def _meaningful(kernel: KernelProfile, main: RooflinePoint, limits: Sequence[_Limit]) -> list[RooflinePoint]:
    """Return the main point, and those of other paths whose units are not much less busy than those of the main one."""
    peaks = {limit.path: limit.value for limit in limits if limit.origin == "at-clock" and limit.path is not None}

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


def _uncertified(done: Work) -> bool:
    """Tell whether nothing vouches for the counters of work. Estimates say so themselves; old sessions do not know."""
    return done.certificate == "none" and done.basis != "estimated"


def _of_ceiling(ceiling: Ceiling) -> _Limit:
    return _Limit(ceiling.origin, ceiling.path, ceiling.level, ceiling.value, ceiling.clock_hz)


def _at_kernel_clock(limit: _Limit, kernel: KernelProfile) -> _Limit:
    """Move an at-clock limit to the kernel's own clock: exactly where a point of the kernel shows it, else in scale."""
    if limit.origin == "measured":
        return limit
    exact = _seen_limit(limit, kernel)
    if limit.path is not None:
        clock = kernel.sm_clock_hz if limit.origin == "at-clock" else limit.clock_hz
        scale = clock / limit.clock_hz if clock and limit.clock_hz else 1.0
        value = exact or limit.value * scale
        return _Limit(limit.origin, limit.path, None, value, clock or limit.clock_hz)
    if limit.origin == "rated":
        return limit
    if exact is None and limit.level == "l1" and kernel.sm_clock_hz and limit.clock_hz:
        exact = limit.value * kernel.sm_clock_hz / limit.clock_hz
    if exact is None:
        return limit
    clock = limit.clock_hz * exact / limit.value if limit.clock_hz else None
    return _Limit(limit.origin, None, limit.level, exact, clock)


def _seen_limit(limit: _Limit, kernel: KernelProfile) -> float | None:
    """Return the limit that the kernel's own points were held against, if one of them lies under that side."""
    for point in kernel.roofline:
        if point.ceiling != limit.origin:
            continue
        if limit.path == point.path and point.bound == "compute":
            return point.roof_flop_per_s
        if limit.level == point.level and point.bound == "memory":
            return point.roof_flop_per_s / point.intensity
    return None


def _shown_limits(limits: Sequence[_Limit], paths: set[str], levels: Sequence[str]) -> list[_Limit]:
    """Keep the roofs of paths that occur (if none does, one of each height) and of the levels shown, in fixed order."""
    wanted = paths or _one_of_each_height(limits)
    shown = [limit for limit in limits if (limit.path in wanted if limit.path is not None else limit.level in levels)]
    order = {name: index for index, name in enumerate((*LEVELS, *PATHS))}
    return sorted(shown, key=lambda limit: (ORIGINS.index(limit.origin), order[limit.path or limit.level or "l1"]))


def _one_of_each_height(limits: Sequence[_Limit]) -> set[str]:
    """Return the floating-point paths whose roofs differ: the first of those that are equally high."""
    heights: dict[float, str] = {}
    for limit in limits:
        if limit.path is not None and "int" not in limit.path:
            heights.setdefault(limit.value, limit.path)
    return set(heights.values())


def _assemble(
    *,
    figure_id: str,
    title: str,
    subtitle: str,
    device: int,
    ceiling: str,
    levels: tuple[str, ...],
    sized: bool,
    limits: Sequence[_Limit],
    points: Sequence[FigurePoint],
    left_out: Sequence[LeftOut],
    notes: list[str],
) -> RooflineFigure:
    ridges = tuple(_ridges(limits))
    intensities, rates = _ranges(limits, ridges, points)
    return RooflineFigure(
        id=figure_id,
        title=title,
        subtitle=subtitle,
        device=device,
        ceiling=ceiling,
        levels=levels,
        unit=_unit(points),
        sized=sized,
        intensity_range=intensities,
        flop_per_s_range=rates,
        roofs=tuple(_roof_lines(limits, intensities, rates)),
        ridges=ridges,
        points=tuple(points),
        left_out=tuple(left_out),
        notes=tuple(notes),
    )


def _unit(points: Sequence[FigurePoint]) -> str:
    units = {words.work_unit(point.path, per_second=False) for point in points}
    return "OP" if units == {"OP"} else "FLOP"


def _ridges(limits: Sequence[_Limit]) -> Iterator[Ridge]:
    """Yield the ridge of every flat roof with every slope of the same origin."""
    for flat in limits:
        for slope in limits:
            if flat.path is not None and slope.level is not None and flat.origin == slope.origin:
                yield Ridge(flat.origin, flat.path, slope.level, flat.value / slope.value, flat.value)


def _ranges(limits: Sequence[_Limit], ridges: Sequence[Ridge], points: Sequence[FigurePoint]) -> tuple[Extent, Extent]:
    """Return ranges that hold every point and ridge with room for labels, and at least three decades of both axes."""
    slopes = [limit.value for limit in limits if limit.level is not None]
    flats = [limit.value for limit in limits if limit.path is not None]
    intensities = [point.intensity for point in points] + [ridge.intensity for ridge in ridges]
    rates = [point.flop_per_s for point in points] + flats
    if not intensities and not slopes:
        return _NO_RANGE
    low, high = min(intensities, default=1.0) / 6, max(intensities, default=1.0) * 8
    if ridges:
        # Two fifths of the width for the flat roofs, whose labels need it.
        last = max(ridge.intensity for ridge in ridges)
        high = max(high, last * (last / low) ** 0.65)
    low, high = _widened(low, high)
    rates = rates or [bandwidth * intensity for bandwidth in slopes for intensity in (low, high)]
    bottom, top = min(rates) / 5, max(rates) * 4
    if slopes:
        # A slope that would leave the frame at once shows nothing: keep two decades of the lowest one.
        bottom = min(bottom, max(flats, default=top) / 100)
    return (low, high), _widened(bottom, top, upwards=False)


def _widened(low: float, high: float, *, upwards: bool = True) -> Extent:
    """Widen a range to three decades: both ways, or downwards only."""
    missing = 1e3 * low / high
    if missing <= 1:
        return low, high
    return (low / missing**0.5, high * missing**0.5) if upwards else (low / missing, high)


def _roof_lines(limits: Sequence[_Limit], intensities: Extent, rates: Extent) -> Iterator[RoofLine]:
    """Yield the lines: slopes up to the highest flat roof of their origin, flat roofs from the leftmost slope on."""
    for limit in limits:
        line = _slope(limit, limits, intensities, rates) if limit.level else _flat(limit, limits, intensities)
        if line is None:
            continue
        name = words.LEVEL_NAMES[limit.level] if limit.level is not None else words.path_name(limit.path or "")
        yield RoofLine(
            id=f"{limit.origin}/{limit.level or limit.path}",
            kind="bandwidth" if limit.level else "compute",
            origin=limit.origin,
            path=limit.path,
            level=limit.level,
            name=name,
            value=limit.value,
            clock_hz=limit.clock_hz,
            value_text=_value_text(limit),
            style=STYLES[limit.origin],
            line=line,
        )


def _slope(limit: _Limit, limits: Sequence[_Limit], intensities: Extent, rates: Extent) -> tuple[Extent, Extent] | None:
    same = [other.value for other in limits if other.path is not None and other.origin == limit.origin]
    top = max(same or [other.value for other in limits if other.path is not None], default=rates[1])
    start = max(intensities[0], rates[0] / limit.value)
    end = min(intensities[1], top / limit.value, rates[1] / limit.value)
    return ((start, start * limit.value), (end, end * limit.value)) if start < end else None


def _flat(limit: _Limit, limits: Sequence[_Limit], intensities: Extent) -> tuple[Extent, Extent] | None:
    slopes = [other for other in limits if other.level is not None]
    same = [other.value for other in slopes if other.origin == limit.origin] or [other.value for other in slopes]
    start = max(intensities[0], limit.value / max(same)) if same else intensities[0]
    return ((start, limit.value), (intensities[1], limit.value)) if start < intensities[1] else None


def _value_text(limit: _Limit) -> str:
    value = format_si(limit.value, "B/s" if limit.level else words.work_unit(limit.path or ""))
    if limit.origin != "at-clock":
        return f"{value} {limit.origin}"
    return f"{value} at {format_si(limit.clock_hz, 'Hz')}" if limit.clock_hz else f"{value} at clock"


def _device_name(session: Session, device: int) -> str:
    found = next((item for item in session.devices if item.id == device), None)
    if found is None or found.name is None:
        capability = found.compute_capability if found is not None else None
        return f"GPU of compute capability {capability}" if capability else "GPU of unknown name"
    return found.name


def _overview_subtitle(kernels: Sequence[KernelProfile], ceiling: str, points: Sequence[FigurePoint]) -> str:
    if not kernels:
        return "no kernel was profiled"
    times = [kernel.time_total_s for kernel in kernels if kernel.time_total_s is not None]
    drawn = len({point.kernel for point in points})
    of_all = f"{drawn} of " if drawn < len(kernels) else ""
    parts = [f"{of_all}{words.count(len(kernels), *words.row_noun(kernels))} drawn"]
    if times:
        parts.append(f"{format_si(sum(times), 's')} GPU time")
    if points:
        which = "the roof at the kernel's clock" if ceiling == "at-clock" else f"the {ceiling} roof"
        parts.append(f"percentages of {which}")
    return ", ".join(parts)


def _kernel_subtitle(kernel: KernelProfile, main: RooflinePoint | None) -> str:
    parts = [format_si(kernel.duration_s, "s")] if kernel.duration_s is not None else []
    if kernel.time_share is not None:
        parts.append(f"{format_percent(kernel.time_share)} of the time")
    if main is not None:
        rate = format_si(main.flop_per_s, words.work_unit(main.path))
        parts.append(f"{words.path_name(main.path)} {rate}")
        parts.append(
            f"{format_percent(main.fraction_of_roof)} of its {words.LEVEL_NAMES[main.level]} roof "
            f"{main.ceiling.replace('-', ' ')}"
        )
    return ", ".join(parts)


def _clock_notes(
    kernels: Sequence[KernelProfile], points: Sequence[FigurePoint], limits: Sequence[_Limit]
) -> Iterator[str]:
    """Say so where the drawn at-clock roofs are not those of every kernel that is drawn."""
    shown = {point.kernel for point in points}
    clocks = [kernel.sm_clock_hz for kernel in kernels if kernel.id in shown and kernel.sm_clock_hz is not None]
    roof = next((limit.clock_hz for limit in limits if limit.origin == "at-clock" and limit.path is not None), None)
    if not clocks or not roof or all(abs(clock / roof - 1) <= _CLOCK_TOLERANCE for clock in clocks):
        return
    spread = f"{format_si(min(clocks), 'Hz')} to {format_si(max(clocks), 'Hz')}"
    yield (
        f"Kernels ran at {spread}; the at-clock roofs are drawn for {format_si(roof, 'Hz')}, the clock of the "
        "longest. Each kernel's percentage is of the roof at its own clock."
    )


def _certificate_notes(points: Sequence[FigurePoint]) -> Iterator[str]:
    """Say so where the counters of a path are taken on trust."""
    paths = sorted({point.path for point in points if point.uncertified}, key=PATHS.index)
    if paths:
        names = " and ".join(filter(None, [", ".join(map(words.path_name, paths[:-1])), words.path_name(paths[-1])]))
        yield f"Hollow: the counters of {names} are not certified on this architecture, nor checked."


def _left_out(kernels: Sequence[KernelProfile], shown: set[int], level: str, ceiling: str) -> tuple[LeftOut, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for kernel in kernels:
        if kernel.id not in shown:
            reason = without_point(kernel, level, ceiling)
            groups.setdefault((reason.why, reason.how), []).append(kernel.id)
    return tuple(LeftOut(tuple(ids), why, how or None) for (why, how), ids in groups.items())


def _left_out_notes(session: Session, left_out: Sequence[LeftOut]) -> Iterator[str]:
    labels = {kernel.id: kernel.label for kernel in session.kernels}
    times = {kernel.id: kernel.launches for kernel in session.kernels}
    for group in left_out:
        names = list(dict.fromkeys(labels[kernel] for kernel in group.kernels))
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        listed = ", ".join(shortened(name, _NAME_LENGTH) for name in names[:2]) + more
        count = sum(times[kernel] for kernel in group.kernels)
        launches = f"{count} launch{'es' if count != 1 else ''}"
        how = f"; {group.how}" if group.how else ""
        yield f"Not drawn: {listed} ({launches}): {group.why}{how}."


def _level_notes(kernel: KernelProfile, points: Sequence[FigurePoint]) -> Iterator[str]:
    if not points:
        reason = without_point(kernel)
        yield f"No point: {reason.why}" + (f"; {reason.how}." if reason.how else ".")
        return
    for level in LEVELS:
        if all(point.level != level for point in points) and all(moved.level != level for moved in kernel.traffic):
            yield f"{words.LEVEL_NAMES[level]} traffic not collected; {words.remedy(kernel, f'traffic.{level}')}."
