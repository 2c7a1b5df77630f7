"""One kernel as blocks: its findings, its hot code, its rates as shares of ceilings, and missing metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from gpuprof.diagnose.verdict import computes_integers
from gpuprof.hardware.specs import Basis
from gpuprof.model.kernel_ceilings import ceilings_of
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.session import CodeLine as ExcerptLine
from gpuprof.model.session import Evidence as KernelEvidence
from gpuprof.model.session import Excerpt, KernelProfile, Location, Session
from gpuprof.model.session import Finding as KernelFinding
from gpuprof.model.stalls import stall_name
from gpuprof.text import cut_middle
from gpuprof.units import format_percent, format_si
from gpuprof.views.document import (
    Bar,
    Bars,
    Block,
    Cell,
    Code,
    CodeLine,
    Column,
    Evidence,
    Facts,
    Finding,
    Findings,
    Fold,
    Inline,
    Note,
    Table,
    anchor,
)
from gpuprof.views.warp_states import warp_states
from gpuprof.words.collected import counter_row, counters_left_out
from gpuprof.words.file_names import file_name
from gpuprof.words.finding_text import (
    cause_of,
    cause_text,
    certainty_text,
    gain_text,
    location_text,
    remains_text,
    value_text,
)
from gpuprof.words.flop import operator_bytes_text, operator_flop_text
from gpuprof.words.launches import kernel_time_text, launch_text, traffic_text
from gpuprof.words.missing_metrics import without_counters
from gpuprof.words.profile_values import (
    LEVEL_NAMES,
    UNIT_NAMES,
    cycles_of_pipes,
    intensity_text,
    occupancy_text,
    rate_text,
    work_text,
)
from gpuprof.words.sentences import change_texts, full_stop, joined_by, sentences
from gpuprof.words.verdict import limit_and_busiest

_NAME_LENGTH = 200
_TAB = 4
_LEAST_PIPE = 0.001
_PIPES = {
    "fmaheavy": "FMA heavy",
    "fmalite": "FMA light",
    "tensor": "Tensor",
    "alu": "ALU (integer and logic)",
    "xu": "XU (special functions)",
    "lsu": "LSU (loads and stores)",
    "tex": "TEX (texture)",
    "cbu": "CBU (branches)",
    "adu": "ADU (addresses)",
    "uniform": "Uniform (once per warp)",
}
_COUNTER_COLUMNS = (Column("metric", "name"), Column("value", "number"), Column("unit"))
_CEILINGS: Mapping[str, str] = {
    "rated": "the rated ceiling",
    "at-clock": "the ceiling at this kernel's clock",
    "measured": "the measured ceiling",
}


def kernel_blocks(session: Session, kernel: KernelProfile, ceiling: str = "at-clock") -> Iterator[Block]:
    """Yield everything about a kernel; rates and points are shares of the ceilings of one origin."""
    if kernel.demangled != kernel.label:
        name = kernel.demangled
        yield Note(Cell(cut_middle(name, _NAME_LENGTH), whole=name, code=True), "muted")
    lines = set()
    for excerpt in kernel.excerpts:
        lines |= {_line_anchor(kernel, excerpt.file, line.number, line.pc) for line in excerpt.lines}
    findings = tuple(_finding(item, kernel, lines) for item in kernel.findings)
    if findings:
        yield Findings(findings)
    elif any(other.findings for other in session.kernels):
        yield Note("No finding: the rules whose counters were collected saw nothing to fix.", "muted")
    code = _excerpts(kernel, {item.place.href for item in findings})
    yield from code[:1]
    if len(code) > 1:
        yield Fold(f"More hot code ({len(code) - 1})", tuple(code[1:]))
    yield Facts(tuple(_facts(session, kernel)))
    for bars in (_throughput(kernel), _rates(session, kernel, ceiling), _pipes(kernel), warp_states(kernel)):
        if bars.items:
            yield bars
    if kernel.traffic:
        traffic = tuple((LEVEL_NAMES[moved.level], traffic_text(moved)) for moved in kernel.traffic)
        yield Fold("Memory traffic", (Facts(traffic),))
    points = tuple(_point_rows(kernel, ceiling))
    if points:
        yield Fold("Roofline points", (Table("Roofline points", _POINT_COLUMNS, points),))
    if kernel.collected:
        counters = tuple(map(counter_row, kernel.collected))
        title = f"Other counters that were collected ({len(counters)})"
        yield Fold(title, (Table("Other counters", _COUNTER_COLUMNS, counters),))
    elsewhere = counters_left_out(kernel, len(kernel.collected))
    if elsewhere:
        yield Note(full_stop(elsewhere), "muted")
    if kernel.missing:
        title = f"Missing for this kernel, and how to collect it ({len(kernel.missing)})"
        yield Fold(title, (Facts(tuple(_missing_rows(kernel))),))


def finding_anchor(finding: str) -> str:
    """Return the anchor of a finding by its id."""
    return anchor("finding", *finding.split("."))


def _finding(finding: KernelFinding, kernel: KernelProfile, lines: Collection[str]) -> Finding:
    cause = cause_of(finding, kernel)
    explained_by: Inline = ""
    if cause is not None:
        explained_by = Cell(cause_text(finding, kernel), href=finding_anchor(cause.id))
    certainty = certainty_text(finding.confidence, only_times=without_counters(kernel) is not None)
    place = Cell(location_text(finding.place), href=_place_anchor(kernel, finding.place, lines), code=True)
    return replace(
        finding_block(finding, certainty, place),
        gain=gain_text(finding),
        remains=remains_text(finding),
        explained_by=explained_by,
    )


def finding_block(finding: KernelFinding, certainty: str, place: Cell) -> Finding:
    """Return a finding without its gain and its cause."""
    changes = change_texts(finding.action, finding.advice)
    return Finding(
        rule=finding.rule,
        severity=finding.severity,
        headline=finding.headline,
        gain="",
        remains="",
        certainty=certainty,
        why=finding.why,
        action="".join(changes[:1]),
        advice="".join(changes[1:]),
        place=place,
        evidence=tuple(map(_evidence, finding.evidence)),
        anchor=finding_anchor(finding.id),
    )


def _evidence(item: KernelEvidence) -> Evidence:
    """Return a value that a finding rests on, with a bar if it is a percentage."""
    value = Cell(value_text(item.value, item.unit))
    if item.unit == "%":
        mark = item.threshold / 100 if item.threshold is not None else None
        value = replace(value, bar=item.value / 100, mark=mark)
    threshold = value_text(item.threshold, item.unit) if item.threshold is not None else ""
    metric = item.metric if item.meaning else ""
    return Evidence(item.meaning or item.metric, value, threshold, metric)


def _excerpts(kernel: KernelProfile, marked: Collection[str]) -> list[Code]:
    """Return the excerpts, hottest first; lines without text are one excerpt, hottest first, too."""
    blocks = []
    alone: list[CodeLine] = []
    ordered = sorted(kernel.excerpts, key=_hottest, reverse=True)
    for excerpt in ordered:
        heat = _hottest(ordered[0])
        lines = tuple(_code_line(kernel, excerpt, line, text, heat, marked) for line, text in _texts(excerpt))
        if not excerpt.has_text:
            alone += lines
            continue
        title = file_name(excerpt.file) if excerpt.file else ""
        numbers = "line"
        if excerpt.language == "sass":
            title = joined_by(" of ", "instructions", title)
            numbers = "address"
        blocks.append(Code(title, lines, (excerpt.weight, "main stall"), numbers=numbers))
    if alone:
        alone.sort(key=lambda line: -line.heat)
        columns = (ordered[0].weight, "main stall")
        blocks.append(Code("the report has no source text", tuple(alone), columns))
    return blocks


def _hottest(excerpt: Excerpt) -> float:
    return max((line.share for line in excerpt.lines), default=0.0)


def _texts(excerpt: Excerpt) -> Iterator[tuple[ExcerptLine, str]]:
    """Yield each line with its text, without the indentation that all share."""
    texts = [line.text.expandtabs(_TAB).rstrip() for line in excerpt.lines]
    shared = min((len(text) - len(text.lstrip(" ")) for text in texts if text), default=0)
    return zip(excerpt.lines, (text[shared:] for text in texts), strict=True)


def _code_line(
    kernel: KernelProfile, excerpt: Excerpt, line: ExcerptLine, text: str, hottest: float, marked: Collection[str]
) -> CodeLine:
    """Return a line with its share and its main stall; in full all of its stalls."""
    number = f"{line.pc:#x}" if line.pc is not None else str(line.number or "")
    if excerpt.file and not excerpt.has_text:
        number = f"{file_name(excerpt.file)}:{number}"
    stalls = [f"{stall_name(stall.reason)} {format_percent(stall.share)}" for stall in line.stalls]
    place = _line_anchor(kernel, excerpt.file, line.number, line.pc)
    return CodeLine(
        number,
        text if excerpt.has_text else None,
        heat=line.share / hottest if hottest else 0.0,
        notes=(format_percent(line.share) if line.share else "", Cell("".join(stalls[:1]), whole=", ".join(stalls))),
        anchor=place,
        marked=place in marked,
    )


def _line_anchor(kernel: KernelProfile, file: str | None, number: int | None, pc: int | None) -> str:
    if pc is not None:
        return anchor("line", kernel.id, f"{pc:#x}")
    return anchor("line", kernel.id, file_name(file or ""), number)


def _place_anchor(kernel: KernelProfile, place: Location | None, lines: Collection[str]) -> str:
    """Return the anchor of the line that a finding points at; empty if no excerpt has it."""
    if place is None:
        return ""
    of_source = _line_anchor(kernel, place.file, place.line, None)
    of_code = _line_anchor(kernel, place.file, place.line, place.pc)
    return next((name for name in (of_source, of_code) if name in lines), "")


def _facts(session: Session, kernel: KernelProfile) -> Iterator[tuple[str, Inline]]:
    if len(session.sources) > 1:
        yield "file", file_name(session.sources[kernel.source].file)
    kind = kind_named(kernel.kind)
    if kind is not None:
        yield "kind", kind.title
    yield "limit", limit_and_busiest(kernel, session.only_times)
    yield "launch", launch_text(kernel)
    yield "time", kernel_time_text(kernel)
    if kernel.ranges:
        yield "ranges", " / ".join(kernel.ranges)
    yield "occupancy", occupancy_text(kernel.occupancy)
    work = [work_text(item) for item in kernel.work if item.flop]
    if work:
        yield "work", ", ".join(work)
    if kernel.own_flop is not None:
        yield "model FLOP", operator_flop_text(kernel.own_flop)
    if kernel.operator_bytes is not None:
        yield "operands", operator_bytes_text(kernel.operator_bytes)
    if kernel.answers:
        yield "answers", sentences(answer.text for answer in kernel.answers)


def _throughput(kernel: KernelProfile) -> Bars:
    items = []
    for unit in kernel.throughput:
        text = joined_by(" ", format_percent(unit.fraction), unit.note)
        items.append(Bar(UNIT_NAMES[unit.unit], unit.fraction, text))
    return Bars("Throughput", tuple(items), "peak")


def _rates(session: Session, kernel: KernelProfile, origin: str) -> Bars:
    """Return the rate of each path and the bandwidth at each level, as shares of their ceilings."""
    ceilings = ceilings_of(session, kernel, origin)
    items = []
    for work in kernel.work:
        if work.flop_per_s:
            name = path_name(work.path)
            items.append(_rate(name, work.flop_per_s, ceilings.get(work.path), work_unit(work.path), work.basis))
    for traffic in kernel.traffic:
        if traffic.bytes_per_s is not None:
            name = f"{LEVEL_NAMES[traffic.level]} bandwidth"
            items.append(_rate(name, traffic.bytes_per_s, ceilings.get(traffic.level), "B/s", traffic.basis))
    return Bars("Rates", tuple(items), _CEILINGS[origin])


def _rate(name: str, rate: float, ceiling: float | None, unit: str, basis: Basis) -> Bar:
    text = format_si(rate, unit)
    if basis == "estimated":
        text += " estimated"
    if not ceiling:
        return Bar(name, None, f"{text}, no ceiling known")
    return Bar(name, rate / ceiling, f"{text} ({format_percent(rate / ceiling)} of {format_si(ceiling, unit)})")


def _pipes(kernel: KernelProfile) -> Bars:
    items = []
    idle = []
    for pipe in sorted(kernel.pipes, key=lambda pipe: (-pipe.fraction, pipe.name)):
        name = _PIPES.get(pipe.name, pipe.name.upper())
        if pipe.fraction >= _LEAST_PIPE:
            items.append(Bar(name, pipe.fraction, format_percent(pipe.fraction), whole=pipe.metric))
        else:
            idle.append(name)
    note = f"Idle pipes: {', '.join(idle)}." if idle else ""
    return Bars("Pipes", tuple(items), cycles_of_pipes(kernel).removeprefix("of "), note)


_POINT_COLUMNS = (
    Column("path"),
    Column("level"),
    Column("intensity", "number", meaning="arithmetic intensity: work of the path per byte at the level"),
    Column("rate", "number"),
    Column("of roof", "number"),
    Column("roof of", rank=1, meaning="the bandwidth or rate that limits at this intensity"),
)


def _point_rows(kernel: KernelProfile, ceiling: str) -> Iterator[tuple[Inline, ...]]:
    """Yield the points under one kind of ceiling; those of integers only if they are the work of the kernel."""
    counts_integers = computes_integers(kernel)
    for point in kernel.roofline:
        if point.ceiling == ceiling and (point.path != "int32" or counts_integers):
            path = path_name(point.path)
            level = LEVEL_NAMES[point.level]
            yield (
                path,
                level,
                intensity_text(point.path, point.intensity),
                rate_text(point.path, point.flop_per_s),
                format_percent(point.fraction_of_roof),
                f"{level} bandwidth" if point.bound == "memory" else f"{path} rate",
            )


def _missing_rows(kernel: KernelProfile) -> Iterator[tuple[str, Inline]]:
    """Yield the missing metrics, grouped by the reason and the way to collect them."""
    groups: dict[str, list[str]] = {}
    for gap in kernel.missing:
        groups.setdefault(joined_by("; ", gap.why, gap.how), []).append(gap.what)
    for text, whats in groups.items():
        yield ", ".join(whats), text
