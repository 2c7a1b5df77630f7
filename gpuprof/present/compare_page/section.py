"""The section of a changed kernel: causes, launch, resources, stalls, counters, findings and source of both sides."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gpuprof.comparison.contract import CountChange, FindingChange, KernelChange, SideName, SourceLine, TimeChange
from gpuprof.comparison.pair import Pair
from gpuprof.present.compare_page.code import LineRow, PairedCode, code_note, line_rows, paired_code
from gpuprof.present.compare_page.launch import launch_facts
from gpuprof.present.compare_page.parts import TwoSided, told
from gpuprof.present.compare_page.stalls import PairedStalls, paired_stalls
from gpuprof.present.page.findings import rule_name
from gpuprof.present.page.parts import KernelLabel, label
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_percent, signed_percent
from gpuprof.words.comparison_values import (
    change_text,
    count_name,
    interval_text,
    side_texts,
)
from gpuprof.words.comparison_verdicts import (
    gain_text,
    kernel_reasons,
    match_text,
    reason_text,
    samples_text,
    time_values,
    verdict_parts,
)
from gpuprof.words.finding_text import CONFIDENCE_WORDS
from gpuprof.words.sentences import capital, full_stop, sentences

_NAME_LENGTH, _MATCH_LENGTH, _WHERE_LENGTH = 2000, 300, 120
_LEAST_TOLERANCE = 1e-5
"""Below it a tolerance is for the rounding of a report."""
_GROUPS = (("went", "Findings that went"), ("came", "Findings that came"), ("stayed", "Findings that stayed"))
_CERTAINTY = {"counted": "measured", "inferred": "inferred", "guess": "guess"}
_CERTAINTY_WORDS = {
    "counted": "the counters say so",
    "inferred": "inferred from several values",
    "guess": CONFIDENCE_WORDS["guess"],
}


class CauseLine(Struct, frozen=True):
    """One reason; `dots` is the class of its certainty's drawing."""

    sentence: str
    where: str
    certainty: str
    certainty_words: str
    dots: str
    direction: str


class CountRow(Struct, frozen=True):
    """A counter or resource on both sides. `is_opcode`: instructions of one opcode."""

    name: str
    is_opcode: bool
    metric: str
    base: str
    new: str
    change: str
    tolerance: str
    word: str


class FindingLine(Struct, frozen=True):
    """A finding that went, came or stayed; `others` is its headline on the base side if it differs."""

    rule: str
    severity: str
    headline: str
    before: str
    where: str
    worth: str


class FindingGroup(Struct, frozen=True):
    """The findings of one word, with its heading."""

    word: str
    title: str
    lines: tuple[FindingLine, ...]


class ChangeSection(Struct, frozen=True):
    """Everything about one change."""

    id: int
    label: KernelLabel
    match: str
    time: str
    verdict: str
    sentence: str
    lacking: SideName | None
    time_note: str
    causes: tuple[CauseLine, ...]
    facts: tuple[TwoSided, ...]
    counts: tuple[CountRow, ...]
    opcodes: tuple[CountRow, ...]
    same_counts: tuple[CountRow, ...]
    work_reason: str
    findings: tuple[FindingGroup, ...]
    stalls: PairedStalls | None
    lines: tuple[LineRow, ...]
    code: tuple[PairedCode, ...]
    code_note: str
    names: tuple[TwoSided, ...]


def change_section(change: KernelChange, pair: Pair) -> ChangeSection:
    """Return the section of a change and the pair that it was made from."""
    verdict, sentence = _verdict(change)
    counts = [_count_row(count) for count in change.work.counts]
    code = tuple(paired_code(change, pair))
    return ChangeSection(
        id=change.id,
        label=label(change.label),
        match=capital(cut_middle(printable(match_text(change)), _MATCH_LENGTH)) if not change.is_one_sided else "",
        time=change.time.verdict,
        verdict=verdict,
        sentence=sentence,
        lacking=change.lacking,
        time_note=_time_note(change.time) if not change.is_one_sided else "",
        causes=tuple(_causes(change)),
        facts=tuple(launch_facts(change, pair)),
        counts=tuple(row for row in counts if row.word != "same" and not row.is_opcode),
        opcodes=tuple(row for row in counts if row.word != "same" and row.is_opcode),
        same_counts=tuple(row for row in counts if row.word == "same"),
        work_reason=told(change.work.reason),
        findings=tuple(_findings(change)),
        stalls=paired_stalls(pair),
        lines=tuple(line_rows(change, code)),
        code=code,
        code_note=code_note(pair) if not code else "",
        names=tuple(_names(change)),
    )


def _verdict(change: KernelChange) -> tuple[str, str]:
    """Return the verdict on time, which is coloured, and its size if causes follow below, else the reasons."""
    time, reasons = change.time, kernel_reasons(change)
    verdict, beside = verdict_parts(change)
    rest = f", {beside}" if beside else ""
    if not change.causes or not reasons or change.is_one_sided or time.ratio is None:
        return verdict, f"{rest}: {told(reasons)}" if reasons else rest
    interval = interval_text(time.interval)
    size = f"{change_text(time.ratio)}{f'; {interval} at 99 %' if interval else ''}"
    effect = f", {signed_percent(change.effect)} of the base's GPU time" if change.effect is not None else ""
    return verdict, f"{rest}: {time_values(time)} ({size}){effect}."


def _time_note(time: TimeChange) -> str:
    """Write what the verdict on time rests on, and what would settle an unclear one."""
    parts = []
    if time.cycles_ratio is not None:
        parts.append(f"SM cycles {change_text(time.cycles_ratio)}")
    parts.append(samples_text(time))
    if time.noise is not None:
        source = f", {told(time.noise_source)}" if time.noise_source else ""
        parts.append(f"noise {format_percent(time.noise)}{source}")
    text = f"Time: {'; '.join(filter(None, parts))}" if any(parts) else ""
    return sentences((text, capital(told(reason_text(time)))))


def _causes(change: KernelChange) -> Iterator[CauseLine]:
    for cause in change.causes:
        yield CauseLine(
            sentence=full_stop(capital(told(cause.sentence))),
            where=_where(cause.location),
            certainty=cause.certainty,
            certainty_words=_CERTAINTY_WORDS[cause.certainty],
            dots=_CERTAINTY[cause.certainty],
            direction=cause.direction,
        )


def _where(line: SourceLine | None) -> str:
    return cut_middle(told(f"{line.file}:{line.line}"), _WHERE_LENGTH) if line is not None else ""


def _count_row(count: CountChange) -> CountRow:
    base, new = side_texts(count.base, count.new, count.unit, count.name)
    word = {"only-base": "base only", "only-new": "new only"}.get(count.word, count.word)
    name = "registers per thread" if count.name == "registers" else count_name(count.name)
    return CountRow(
        name=capital(printable(name)),
        is_opcode=count.name.startswith("opcode."),
        metric=cut_middle(printable(count.metric), _MATCH_LENGTH),
        base=printable(base),
        new=printable(new),
        change=change_text(count.ratio, ""),
        tolerance=_tolerance(count),
        word=word,
    )


def _tolerance(count: CountChange) -> str:
    band = f"±{format_percent(count.tolerance)}" if count.tolerance >= _LEAST_TOLERANCE else "exact"
    return f"{band}, depends on the data" if count.data_dependent else band


def _findings(change: KernelChange) -> Iterator[FindingGroup]:
    for word, title in _GROUPS:
        lines = tuple(_finding_line(finding) for finding in change.findings if finding.word == word)
        if lines:
            yield FindingGroup(word, title, lines)


def _finding_line(finding: FindingChange) -> FindingLine:
    before = told(finding.base) if finding.word == "stayed" and finding.base != finding.new else ""
    return FindingLine(
        rule=rule_name(printable(finding.rule)),
        severity=finding.severity,
        headline=told(finding.new or finding.base),
        before=before,
        where=_where(finding.location),
        worth=gain_text(finding),
    )


def _names(change: KernelChange) -> Iterator[TwoSided]:
    """Yield the full names if the label does not have them."""
    sides = [
        "\n".join(dict.fromkeys(cut_middle(printable(kernel.demangled), _NAME_LENGTH) for kernel in kernels))
        for kernels in (change.base, change.new)
    ]
    if any(side and side != printable(change.label) for side in sides):
        yield TwoSided("Full name", base=sides[0], new=sides[1], changed=sides[0] != sides[1])
