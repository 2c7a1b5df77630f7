"""One kernel as blocks: its findings, its hot code, how close it is to the ceilings, and what is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from gpuprof.hardware.specs import Basis
from gpuprof.model.headline import nearest_limit
from gpuprof.model.kernel_ceilings import at_kernel_clock
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.recorded import Missing
from gpuprof.model.session import CodeLine as ExcerptLine
from gpuprof.model.session import Evidence as KernelEvidence
from gpuprof.model.session import Excerpt, KernelProfile, Location, Session
from gpuprof.model.session import Finding as KernelFinding
from gpuprof.model.stalls import stall_name
from gpuprof.text import cut_middle, printable
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
from gpuprof.views.kernel_limits import computes_integers, shown_limit
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
    limit_text,
    occupancy_text,
    rate_text,
    work_text,
)
from gpuprof.words.sentences import change_texts, full_stop, sentences

_NAME_LENGTH = 700
_SHORT_NAME_LENGTH = 150
_TAB = 4
_LEAST_PIPE = 0.001
_PIPES = {
    "fp64": "FP64",
    "fp32": "FP32",
    "fp16": "FP16",
    "fma": "FMA",
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
_CEILINGS: Mapping[str, str] = {
    "rated": "the rated ceiling",
    "at-clock": "the ceiling at this kernel's clock",
    "measured": "the measured ceiling",
}

# Source lines by file and number, instructions by no file and their address.
_Place = tuple[str | None, int]


def kernel_blocks(session: Session, kernel: KernelProfile, *, ceiling: str = "at-clock") -> tuple[Block, ...]:
    """Return everything about a kernel; rates and points are held against the ceilings of one origin."""
    return tuple(_blocks(session, kernel, ceiling))


def finding_anchor(finding: KernelFinding | str) -> str:
    """Return the anchor of a finding, given it or its id."""
    name = finding if isinstance(finding, str) else finding.id
    return anchor("finding", *name.split("."))


def _blocks(session: Session, kernel: KernelProfile, ceiling: str) -> Iterator[Block]:
    if kernel.demangled != kernel.label:
        name = printable(kernel.demangled)
        shown = Cell(cut_middle(name, _NAME_LENGTH), whole=name, code=True)
        yield Note(shown, "muted", short=cut_middle(name, _SHORT_NAME_LENGTH))
    if kernel.findings:
        yield _findings(kernel)
    elif any(other.findings for other in session.kernels):
        yield Note("No finding: the rules whose counters were collected saw nothing to fix.", "muted")
    yield from _code(kernel)
    yield Facts(tuple(_facts(session, kernel)))
    for bars in (_throughput(kernel), _rates(session, kernel, ceiling), _pipes(kernel), warp_states(kernel)):
        if bars is not None:
            yield bars
    if kernel.traffic:
        traffic = tuple((LEVEL_NAMES[moved.level], traffic_text(moved)) for moved in kernel.traffic)
        yield Fold("Memory traffic", (Facts(traffic),))
    points = tuple(_point_rows(kernel, ceiling))
    if points:
        yield Fold("Roofline points", (Table("Roofline points", _POINT_COLUMNS, points),))
    yield from _collected(kernel)
    if kernel.missing:
        title = f"Missing for this kernel, and how to collect it ({len(kernel.missing)})"
        yield Fold(title, (Facts(tuple(_missing_rows(kernel))),))


def _findings(kernel: KernelProfile) -> Findings:
    only_times = without_counters(kernel) is not None
    places = _line_anchors(kernel)
    return Findings(tuple(_finding(item, kernel, places, only_times=only_times) for item in kernel.findings))


def _finding(
    finding: KernelFinding, kernel: KernelProfile, places: Mapping[_Place, str], *, only_times: bool
) -> Finding:
    cause = cause_of(finding, kernel)
    explained_by: Inline = ""
    if cause is not None:
        explained_by = Cell(cause_text(finding, kernel), href=finding_anchor(cause))
    changes = change_texts(finding.action, finding.advice)
    return Finding(
        rule=finding.rule,
        severity=finding.severity,
        headline=finding.headline,
        gain=gain_text(finding),
        remains=remains_text(finding),
        certainty=certainty_text(finding.confidence, only_times=only_times),
        why=finding.why,
        action="".join(changes[:1]),
        advice="".join(changes[1:]),
        place=Cell(location_text(finding.place), href=_line_anchor(finding.place, places), code=True),
        evidence=tuple(map(_evidence, finding.evidence)),
        explained_by=explained_by,
        anchor=finding_anchor(finding),
    )


def _evidence(item: KernelEvidence) -> Evidence:
    """Return a value that a finding rests on, with a bar if it is a percentage."""
    is_share = item.unit == "%"
    threshold = ""
    mark = None
    if item.threshold is not None:
        threshold = value_text(item.threshold, item.unit)
        mark = item.threshold / 100 if is_share else None
    value = Cell(value_text(item.value, item.unit), bar=item.value / 100 if is_share else None, mark=mark)
    if not item.meaning:
        return Evidence(item.metric, value, threshold)
    return Evidence(item.meaning, value, threshold, item.metric)


def _code(kernel: KernelProfile) -> Iterator[Block]:
    """Yield the excerpt with the hottest line, and the others in a fold."""
    excerpts = _excerpts(kernel)
    yield from excerpts[:1]
    if len(excerpts) > 1:
        yield Fold(f"More hot code ({len(excerpts) - 1})", tuple(excerpts[1:]))


def _excerpts(kernel: KernelProfile) -> list[Code]:
    """Return the excerpts, hottest first; lines without text are one excerpt, hottest first, too."""
    hottest = max(map(_hottest, kernel.excerpts), default=0.0)
    places = _line_anchors(kernel)
    found = {_line_anchor(finding.place, places) for finding in kernel.findings}
    blocks = []
    alone: list[CodeLine] = []
    for index, excerpt in sorted(enumerate(kernel.excerpts), key=lambda pair: -_hottest(pair[1])):
        file = file_name(excerpt.file) if excerpt.file else ""
        lines = []
        for line, text in zip(excerpt.lines, _dedented(excerpt), strict=True):
            number = _line_number(line)
            place = _excerpt_anchor(kernel, index, line)
            lines.append(
                CodeLine(
                    number if excerpt.has_text or not file else f"{file}:{number}",
                    text if excerpt.has_text else None,
                    heat=line.share / hottest if hottest else 0.0,
                    notes=_line_notes(line),
                    anchor=place,
                    marked=place in found,
                )
            )
        if not excerpt.has_text:
            alone += lines
            continue
        title = file or "instructions"
        if file and excerpt.language == "sass":
            title = f"instructions of {file}"
        numbers = "line" if excerpt.language == "source" else "address"
        blocks.append(Code(title, tuple(lines), (excerpt.weight, "main stall"), numbers=numbers))
    if alone:
        alone.sort(key=lambda line: -line.heat)
        columns = (kernel.excerpts[0].weight, "main stall")
        blocks.append(Code("the report has no source text", tuple(alone), columns))
    return blocks


def _hottest(excerpt: Excerpt) -> float:
    return max((line.share for line in excerpt.lines), default=0.0)


def _line_number(line: ExcerptLine) -> str:
    if line.pc is not None:
        return f"{line.pc:#x}"
    return str(line.number) if line.number is not None else ""


def _dedented(excerpt: Excerpt) -> list[str]:
    """Return the texts of the lines without the indentation that all share."""
    return textwrap.dedent("\n".join(line.text.expandtabs(_TAB) for line in excerpt.lines)).split("\n")


def _line_notes(line: ExcerptLine) -> tuple[Inline, ...]:
    """Return the share of a line and its main stall; in full all of its stalls."""
    share = format_percent(line.share) if line.share > 0 else ""
    stalls = [f"{stall_name(stall.reason)} {format_percent(stall.share)}" for stall in line.stalls]
    if not stalls:
        return share, ""
    return share, Cell(stalls[0], whole=", ".join(stalls))


def _line_anchors(kernel: KernelProfile) -> dict[_Place, str]:
    """Return the anchor of each line of the excerpts."""
    places: dict[_Place, str] = {}
    for index, excerpt in enumerate(kernel.excerpts):
        for line in excerpt.lines:
            if excerpt.language == "source" and line.number is not None:
                places.setdefault((excerpt.file, line.number), _excerpt_anchor(kernel, index, line))
            elif line.pc is not None:
                places.setdefault((None, line.pc), _excerpt_anchor(kernel, index, line))
    return places


def _excerpt_anchor(kernel: KernelProfile, excerpt: int, line: ExcerptLine) -> str:
    place = line.pc if line.pc is not None else line.number
    return anchor("line", kernel.id, excerpt, place if place is not None else "x")


def _line_anchor(location: Location | None, places: Mapping[_Place, str]) -> str:
    """Return the anchor of the line that a finding points at; empty if no excerpt has it."""
    if location is None:
        return ""
    for place in ((location.file, location.line), (None, location.pc)):
        if place[1] is not None and place in places:
            return places[place[0], place[1]]
    return ""


def _facts(session: Session, kernel: KernelProfile) -> Iterator[tuple[str, Inline]]:
    if len(session.sources) > 1:
        file = file_name(session.sources[kernel.source].file)
        yield "file", f"{file} ({kernel.source + 1} of {len(session.sources)})"
    kind = kind_named(kernel.kind)
    if kind is not None:
        yield "kind", kind.title
    limit = shown_limit(session, kernel).text
    if nearest_limit(kernel) is not None:
        limit = f"{limit}; busiest unit: {limit_text(kernel)}"
    yield "limit", limit
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


def _throughput(kernel: KernelProfile) -> Bars | None:
    items = []
    for unit in kernel.throughput:
        text = format_percent(unit.fraction)
        if unit.note:
            text += f" {unit.note}"
        items.append(Bar(UNIT_NAMES[unit.unit], unit.fraction, text))
    return Bars("Throughput", tuple(items), "peak") if items else None


def _rates(session: Session, kernel: KernelProfile, origin: str) -> Bars | None:
    """Return the rate of each path and the bandwidth at each level, as shares of their ceilings."""
    ceilings = {}
    for ceiling in session.ceilings:
        if ceiling.device == kernel.device and ceiling.origin == origin:
            ceilings[ceiling.path or ceiling.level] = at_kernel_clock(ceiling, kernel).value
    items = []
    for work in kernel.work:
        if work.flop_per_s:
            name = path_name(work.path)
            items.append(_rate(name, work.flop_per_s, ceilings.get(work.path), work_unit(work.path), work.basis))
    for traffic in kernel.traffic:
        if traffic.bytes_per_s is not None:
            name = f"{LEVEL_NAMES[traffic.level]} bandwidth"
            items.append(_rate(name, traffic.bytes_per_s, ceilings.get(traffic.level), "B/s", traffic.basis))
    return Bars("Rates", tuple(items), _CEILINGS[origin]) if items else None


def _rate(name: str, rate: float, ceiling: float | None, unit: str, basis: Basis) -> Bar:
    text = format_si(rate, unit)
    if basis == "estimated":
        text += " estimated"
    if not ceiling:
        return Bar(name, None, f"{text}, no ceiling known")
    return Bar(name, rate / ceiling, f"{text} ({format_percent(rate / ceiling)} of {format_si(ceiling, unit)})")


def _pipes(kernel: KernelProfile) -> Bars | None:
    busy = [pipe for pipe in kernel.pipes if pipe.fraction >= _LEAST_PIPE]
    idle = [_PIPES.get(pipe.name, pipe.name) for pipe in kernel.pipes if pipe.fraction < _LEAST_PIPE]
    busy.sort(key=lambda pipe: (-pipe.fraction, pipe.name))
    items = []
    for pipe in busy:
        text = format_percent(pipe.fraction)
        items.append(Bar(_PIPES.get(pipe.name, pipe.name), pipe.fraction, text, whole=pipe.metric))
    note = f"Idle pipes: {', '.join(idle)}." if idle else ""
    ceiling = cycles_of_pipes(kernel).removeprefix("of ")
    return Bars("Pipes", tuple(items), ceiling, note) if items else None


_POINT_COLUMNS = (
    Column("path"),
    Column("level"),
    Column("intensity", "number", meaning="arithmetic intensity: work of the path per byte at the level"),
    Column("rate", "number"),
    Column("roof", "number", rank=2, meaning="rate that the roofline allows at this intensity"),
    Column("of roof", "number"),
    Column("roof of", rank=1, meaning="the bandwidth or rate that limits at this intensity"),
)


def _point_rows(kernel: KernelProfile, ceiling: str) -> Iterator[tuple[Inline, ...]]:
    """Yield the points under one kind of ceiling; those of integers only if they are the work of the kernel."""
    for point in kernel.roofline:
        if point.ceiling != ceiling or (point.path == "int32" and not computes_integers(kernel)):
            continue
        path = path_name(point.path)
        level = LEVEL_NAMES[point.level]
        yield (
            path,
            level,
            intensity_text(point.path, point.intensity),
            rate_text(point.path, point.flop_per_s),
            rate_text(point.path, point.roof_flop_per_s),
            format_percent(point.fraction_of_roof),
            f"{level} bandwidth" if point.bound == "memory" else f"{path} rate",
        )


_COUNTER_COLUMNS = (Column("metric", "name"), Column("value", "number"), Column("unit"))


def _collected(kernel: KernelProfile) -> Iterator[Block]:
    """Yield the counters that nothing else shows, and where those are that are left out."""
    elsewhere = full_stop(counters_left_out(kernel, len(kernel.collected)))
    if kernel.collected:
        rows = tuple(map(counter_row, kernel.collected))
        table = Table("Other counters", _COUNTER_COLUMNS, rows, more=elsewhere)
        yield Fold(f"Other counters that were collected ({len(rows)})", (table,))
    elif elsewhere:
        yield Fold("Other counters", (Note(elsewhere, "muted"),))


def _missing_rows(kernel: KernelProfile) -> Iterator[tuple[str, Inline]]:
    """Yield what is missing by what to do about it, with the reason if all have the same."""
    groups: dict[str, list[Missing]] = {}
    for gap in kernel.missing:
        groups.setdefault(gap.how, []).append(gap)
    for how, gaps in groups.items():
        reasons = {gap.why for gap in gaps}
        why = f"{reasons.pop()}; " if len(reasons) == 1 else ""
        yield ", ".join(gap.what for gap in gaps), f"{why}{how}"
