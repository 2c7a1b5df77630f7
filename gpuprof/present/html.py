"""A session as one HTML page that needs nothing else: no network, no script, light and dark, safe for hostile names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from gpuprof.model.session import Ceiling, KernelProfile, Occupancy, Session, Source, Throughput
from gpuprof.model.stalls import NOT_STALLED
from gpuprof.model.summary import by_time, main_point, stalls_of
from gpuprof.present import words
from gpuprof.present.figures import hierarchical, overview
from gpuprof.present.text import printable
from gpuprof.units import format_binary, format_percent, format_si

if TYPE_CHECKING:
    from gpuprof.present.figures import RooflineFigure

_TABLE_ROWS = 1000
_LEAST_STALL = 0.02
_LABEL_LENGTH = 120

STALL_COLOURS = {
    "long_scoreboard": "#d55e00", "lg_throttle": "#e58b47", "tex_throttle": "#f0b88c", "drain": "#a84a00",
    "short_scoreboard": "#009e73", "mio_throttle": "#4fbd9d", "imc_miss": "#9bd8c6",
    "wait": "#0072b2", "math_pipe_throttle": "#4a9bca", "dispatch_stall": "#8fc3e0",
    "barrier": "#cc79a7", "membar": "#a8508a", "sleeping": "#e0afca", "gmma": "#8c3f74",
    "no_instruction": "#b8a800", "branch_resolving": "#d9cb3f", "misc": "#777777",
    "selected": "#9aa0a8", "not_selected": "#c4c8ce",
}  # fmt: skip
"""Memory orange, shared memory green, arithmetic blue, synchronisation purple, fetching yellow, no stall grey."""


_IN_NAME = r"[^\s/\\:;,=()'\"]"
_PATH = re.compile(rf"(?<!{_IN_NAME})(?:[A-Za-z]:(?=[/\\]))?{_IN_NAME}*(?:[/\\]{_IN_NAME}*)+")
_HOME = re.compile(r"(?:[A-Za-z]:)?[/\\](?:root|(?:home|Users)[/\\][^/\\]+)[/\\]?")


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its value, both as text."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A text with a bar: `percent` is the bar's length, None where there is no value."""

    text: str
    percent: str | None


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One line of the kernel table."""

    id: int
    label: str
    has_section: bool
    launches: int
    time: str
    share: Bar
    limit: str
    roof: Bar
    occupancy: str
    stall: str


@dataclass(frozen=True, slots=True)
class StallPart:
    """A piece of the stall bar. `start` and `width` are percent of its length."""

    name: str
    text: str
    colour: str
    start: str
    width: str
    is_stall: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn figure (None where there is nothing to draw) and the notes that belong to it."""

    svg: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Everything about one kernel."""

    id: int
    label: str
    full_name: str
    facts: tuple[Fact, ...]
    chart: Chart
    points: tuple[tuple[str, ...], ...]
    traffic: tuple[tuple[str, ...], ...]
    throughput: tuple[tuple[str, Bar], ...]
    stalls: tuple[StallPart, ...]
    stall_family: str
    missing: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What the template shows: texts, and nothing to decide."""

    title: str
    verdict: str
    header: tuple[Fact, ...]
    charts: tuple[Chart, ...]
    rows: tuple[KernelRow, ...]
    rows_left_out: str | None
    sections: tuple[Section, ...]
    sections_left_out: str | None
    sources: tuple[tuple[Fact, ...], ...]
    ceilings: tuple[tuple[str, ...], ...]
    version: str


def render_html(
    session: Session,
    *,
    title: str | None = None,
    top: int = 12,
    keep_paths: bool = False,
    kernels: Collection[int] | None = None,
    level: str = "dram",
    ceiling: str = "at-clock",
) -> str:
    """Return the page. `top` limits the sections, `kernels` (numbers) restricts all but the verdict.

    File names, and paths in commands, lose their folders unless `keep_paths`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("gpuprof.present", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = _page(session, title, top, kernels, level, ceiling, keep_paths=keep_paths)
    template = environment.get_template("report.html")
    return template.render(page=page, colours=Markup(_colour_variables()), svg=Markup) + "\n"  # noqa: S704


def _page(
    session: Session,
    title: str | None,
    top: int,
    chosen: Collection[int] | None,
    level: str,
    ceiling: str,
    *,
    keep_paths: bool,
) -> Page:
    whole = session
    if chosen is not None:
        session = replace(session, kernels=tuple(kernel for kernel in session.kernels if kernel.id in chosen))
    kernels = by_time(session.kernels)
    detailed = kernels[:top] if top else kernels
    shown = kernels[:_TABLE_ROWS]
    with_section = {kernel.id for kernel in detailed}
    names = [printable(_file_name(source.file)) for source in session.sources]
    return Page(
        title=printable(title or f"GPU profile: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"),
        verdict=printable(words.verdict(whole)),
        header=tuple(_header(whole)),
        charts=tuple(_overviews(session, level, ceiling)),
        rows=tuple(_row(kernel, with_section) for kernel in shown),
        rows_left_out=_left_out(kernels, shown, "The table stops here"),
        sections=tuple(_section(session, kernel, ceiling) for kernel in detailed),
        sections_left_out=_left_out(kernels, detailed, "Sections are given for the longest kernels only"),
        sources=tuple(tuple(_source_facts(source, keep_paths=keep_paths)) for source in session.sources),
        ceilings=tuple(_ceiling_row(session, item) for item in session.ceilings),
        version=session.gpuprof_version,
    )


def _left_out(kernels: Sequence[KernelProfile], shown: Sequence[KernelProfile], what: str) -> str | None:
    rest = kernels[len(shown) :]
    if not rest:
        return None
    share = sum(kernel.time_share or 0.0 for kernel in rest)
    of_time = f", {format_percent(share)} of the time" if share else ""
    return f"{what}; {words.count(len(rest), 'launch', 'es')} more{of_time}."


def _file_name(path: str) -> str:
    """Drop the folders of a path of either kind of system."""
    name = PureWindowsPath(path).name if "\\" in path and "/" not in path else PurePosixPath(path).name
    return name or path


def _header(session: Session) -> Iterator[Fact]:
    for device in session.devices:
        yield Fact("GPU", printable(words.device_text(device)))
    for text in dict.fromkeys(words.source_text(source) for source in session.sources):
        yield Fact("Recorded with", printable(text))
    drivers = dict.fromkeys(source.driver for source in session.sources if source.driver)
    if drivers:
        yield Fact("Driver", printable(", ".join(drivers)))
    if not session.kernels:
        return
    clocks = [kernel.sm_clock_hz for kernel in session.kernels if kernel.sm_clock_hz is not None]
    yield Fact("SM clock", _range_text(clocks) if clocks else words.NOT_COLLECTED)
    collected, lacking = _collected(session.kernels)
    yield Fact("Collected", ", ".join(collected) or "nothing")
    if lacking:
        yield Fact("Not collected", ", ".join(lacking))


def _range_text(clocks: Sequence[float]) -> str:
    low, high = format_si(min(clocks), "Hz"), format_si(max(clocks), "Hz")
    return low if low == high else f"{low} to {high}"


def _collected(kernels: Sequence[KernelProfile]) -> tuple[list[str], list[str]]:
    """Split what a report can hold into what any kernel has and what none has."""
    has = {
        "durations": any(kernel.duration_s is not None for kernel in kernels),
        "work": any(kernel.work for kernel in kernels),
    }
    for level, name in words.LEVEL_NAMES.items():
        has[f"{name} traffic"] = any(moved.level == level for kernel in kernels for moved in kernel.traffic)
    has["throughput"] = any(kernel.throughput for kernel in kernels)
    has["occupancy"] = any(kernel.occupancy.achieved is not None for kernel in kernels)
    has["warp states"] = any(kernel.stalls for kernel in kernels)
    return [name for name, found in has.items() if found], [name for name, found in has.items() if not found]


def _overviews(session: Session, level: str, ceiling: str) -> Iterator[Chart]:
    for device in session.devices:
        if not session.kernels or any(kernel.device == device.id for kernel in session.kernels):
            yield _chart(overview(session, device.id, level, ceiling))


def _chart(figure: RooflineFigure) -> Chart:
    from gpuprof.present.plot import render_svg

    drawn = bool(figure.points) or (figure.sized and bool(figure.roofs))
    notes = (figure.subtitle, *figure.notes) if figure.sized else figure.notes
    svg = render_svg(figure, "page", heading=False) if drawn else None
    return Chart(svg, tuple(printable(note) for note in notes))


def _percent_number(fraction: float) -> str:
    return f"{100 * min(1.0, max(0.0, fraction)):.2f}"


def _bar(fraction: float | None, text: str | None = None) -> Bar:
    if fraction is None:
        return Bar(text or words.NOT_COLLECTED, None)
    return Bar(text or format_percent(fraction), _percent_number(fraction))


def _short(text: str) -> str:
    return text if len(text) <= _LABEL_LENGTH else f"{text[: _LABEL_LENGTH - 30]}…{text[-29:]}"


def _row(kernel: KernelProfile, with_section: set[int]) -> KernelRow:
    point = main_point(kernel)
    return KernelRow(
        id=kernel.id,
        label=_short(printable(kernel.label)),
        has_section=kernel.id in with_section,
        launches=kernel.launches,
        time=words.duration(kernel.time_total_s),
        share=_bar(kernel.time_share),
        limit=words.limit_text(kernel),
        roof=_bar(point.fraction_of_roof if point is not None else None, words.roof_text(kernel)),
        occupancy=_occupancy_cell(kernel),
        stall=words.stall_text(kernel),
    )


def _occupancy_cell(kernel: KernelProfile) -> str:
    achieved, theoretical = kernel.occupancy.achieved, kernel.occupancy.theoretical
    if achieved is None and theoretical is not None:
        return f"≤ {format_percent(theoretical)}"
    return words.percent(achieved)


def _section(session: Session, kernel: KernelProfile, ceiling: str) -> Section:
    stalls = stalls_of(kernel)
    return Section(
        id=kernel.id,
        label=_short(printable(kernel.label)),
        full_name=printable(kernel.demangled),
        facts=tuple(_kernel_facts(kernel)),
        chart=_chart(hierarchical(session, kernel.id, ceiling)),
        points=tuple(_point_rows(kernel, ceiling)),
        traffic=tuple(_traffic_rows(kernel)),
        throughput=tuple((_unit_name(unit), _bar(unit.fraction)) for unit in kernel.throughput),
        stalls=tuple(_stall_parts(kernel)),
        stall_family=_family_text(stalls[0].family) if stalls else "",
        missing=tuple((printable(gap.what), printable(gap.why), printable(gap.how)) for gap in kernel.missing),
    )


def _unit_name(unit: Throughput) -> str:
    return words.UNIT_NAMES[unit.unit] + (f", {unit.definition}" if unit.definition else "")


def _kernel_facts(kernel: KernelProfile) -> Iterator[Fact]:
    share = f", {format_percent(kernel.time_share)} of the time" if kernel.time_share is not None else ""
    yield Fact("Duration", words.duration(kernel.duration_s) + share)
    if kernel.launches != 1:
        yield Fact("Launches", words.count(kernel.launches, "launch", "es"))
    if kernel.ranges:
        yield Fact("Ranges", printable(" / ".join(kernel.ranges)))
    yield Fact("Grid", words.dims(kernel.grid))
    yield Fact("Block", words.dims(kernel.block))
    registers = kernel.registers_per_thread
    yield Fact("Registers per thread", str(registers) if registers is not None else words.NOT_COLLECTED)
    shared = kernel.shared_memory_per_block
    yield Fact("Shared memory per block", format_binary(shared) if shared is not None else words.NOT_COLLECTED)
    yield Fact("SM clock", format_si(kernel.sm_clock_hz, "Hz") if kernel.sm_clock_hz else words.NOT_COLLECTED)
    yield Fact("Occupancy", _occupancy_text(kernel.occupancy))


def _occupancy_text(occupancy: Occupancy) -> str:
    if occupancy.achieved is None and occupancy.theoretical is None:
        return words.NOT_COLLECTED
    limited = f", limited by {' and '.join(occupancy.limiters)}" if occupancy.limiters else ""
    return f"{words.percent(occupancy.achieved)} achieved, {words.percent(occupancy.theoretical)} theoretical{limited}"


def _point_rows(kernel: KernelProfile, ceiling: str) -> Iterator[tuple[str, ...]]:
    """Path, level, intensity, achieved, roof, fraction, bound: of the kernel's points under one kind of roof."""
    points = [point for point in kernel.roofline if point.ceiling == ceiling]
    for point in points:
        unit = words.work_unit(point.path)
        yield (
            words.path_name(point.path),
            words.LEVEL_NAMES[point.level],
            format_si(point.intensity, f"{words.work_unit(point.path, per_second=False)}/B"),
            format_si(point.flop_per_s, unit),
            format_si(point.roof_flop_per_s, unit),
            format_percent(point.fraction_of_roof),
            point.bound,
        )


def _traffic_rows(kernel: KernelProfile) -> Iterator[tuple[str, ...]]:
    for moved in kernel.traffic:
        rate = format_si(moved.bytes_per_s, "B/s") if moved.bytes_per_s is not None else words.NOT_COLLECTED
        total = format_si(moved.bytes, "B") if moved.bytes is not None else words.NOT_COLLECTED
        yield words.LEVEL_NAMES[moved.level], total, rate, moved.definition, moved.basis


def _family_text(family: str) -> str:
    return {
        "counter": "from hardware counters",
        "sampled": "from samples of the program counter",
        "sampled-not-issued": "from samples of the program counter in cycles without an issue",
    }[family]


def _stall_parts(kernel: KernelProfile) -> Iterator[StallPart]:
    """Yield the states of a kernel's warps, largest first; what is under 2 % is put together."""
    start, rest = 0.0, 0.0
    for stall in stalls_of(kernel):
        if stall.share < _LEAST_STALL:
            rest += stall.share
            continue
        colour = STALL_COLOURS.get(stall.reason, STALL_COLOURS["misc"])
        yield _stall_part(words.stall_name(stall.reason), stall.share, colour, start, stall.reason not in NOT_STALLED)
        start += stall.share
    if rest > 0:
        yield _stall_part("all others", rest, STALL_COLOURS["misc"], start, True)


def _stall_part(name: str, share: float, colour: str, start: float, is_stall: bool) -> StallPart:
    return StallPart(
        name, format_percent(share), colour, _percent_number(start), _percent_number(share), is_stall=is_stall
    )


def _source_facts(source: Source, *, keep_paths: bool) -> Iterator[Fact]:
    yield Fact("File", printable(source.file if keep_paths else _file_name(source.file)))
    yield Fact("SHA-256", source.sha256)
    yield Fact("Kind", source.kind)
    yield Fact("Recorded with", printable(words.source_text(source)))
    if source.driver:
        yield Fact("Driver", printable(source.driver))
    if source.created_s is not None:
        when = datetime.fromtimestamp(source.created_s, tz=timezone.utc)
        yield Fact("Recorded", f"{when:%Y-%m-%d %H:%M} UTC")
    if source.command:
        yield Fact("Command", printable(source.command if keep_paths else without_folders(source.command)))
    for warning in source.warnings:
        yield Fact("Warning", printable(warning if keep_paths else without_folders(warning)))


def without_folders(text: str) -> str:
    """Shorten every path in a text to its last part; a home folder itself becomes `~`."""
    return _PATH.sub(_last_part, text)


def _last_part(match: re.Match[str]) -> str:
    parts = [part for part in re.split(r"[/\\]", match[0]) if part]
    if _HOME.fullmatch(match[0]) or not parts:
        return "~" if parts else match[0]
    return parts[-1]


def _ceiling_row(session: Session, ceiling: Ceiling) -> tuple[str, ...]:
    unit = "B/s" if ceiling.level is not None else words.work_unit(ceiling.path or "")
    name = words.LEVEL_NAMES[ceiling.level] if ceiling.level is not None else words.path_name(ceiling.path or "")
    device = next((item.name for item in session.devices if item.id == ceiling.device), None)
    return (
        printable(device or f"GPU {ceiling.device}"),
        name,
        ceiling.origin.replace("-", " "),
        format_si(ceiling.value, unit),
        format_si(ceiling.clock_hz, "Hz") if ceiling.clock_hz is not None else "–",
        printable(ceiling.source),
    )


def _colour_variables() -> str:
    """Return the figures' colours as CSS variables, dark ones where the reader's system is dark."""
    from gpuprof.present.plot import page_colours

    colours = page_colours()
    light = "".join(f"{name}:{value[0]};" for name, value in colours.items())
    dark = "".join(f"{name}:{value[1]};" for name, value in colours.items())
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"
