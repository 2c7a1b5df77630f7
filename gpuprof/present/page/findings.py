"""Findings on the page: the lines of "Fix first", and a card for each finding of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuprof.diagnose.priorities import Priority, fix_first
from gpuprof.model.session import Evidence, Finding, KernelProfile, Session
from gpuprof.present.finding_text import (
    CONFIDENCE_WORDS,
    at_most,
    evidence_bar,
    found_in,
    gain_text,
    location_text,
    value_text,
)
from gpuprof.present.page.parts import Bar, KernelLabel, identifier, label, percent_number
from gpuprof.present.source_names import source_name
from gpuprof.present.text import printable


@dataclass(frozen=True, slots=True)
class PriorityLine:
    """One line of "Fix first". The bar's full length is the whole run."""

    href: str
    headline: str
    rule: str
    kernel: KernelLabel
    kernel_id: int
    file: str
    shapes: str
    gain: Bar
    of: str
    confidence: str
    certainty: str


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A value that a finding rests on; `percent` and `mark` place a percentage and its threshold on a bar."""

    meaning: str
    metric: str
    value: str
    threshold: str
    percent: str | None
    mark: str | None


@dataclass(frozen=True, slots=True)
class Card:
    """Everything about one finding."""

    id: str
    rule: str
    severity: str
    headline: str
    gain: str
    certainty: str
    evidence: tuple[EvidenceRow, ...]
    why: str
    advice: str
    where: str
    where_href: str | None


def priority_lines(session: Session) -> tuple[PriorityLine, ...]:
    """Return the findings to look at first, over all kernels of a session."""
    return tuple(_priority_line(item, session) for item in fix_first(session))


def priority_kernels(session: Session) -> frozenset[int]:
    """Return the numbers of the kernels that "Fix first" names."""
    return frozenset(item.kernel.id for item in fix_first(session))


def cards(kernel: KernelProfile, places: Mapping[tuple[str | None, int], str]) -> Iterator[Card]:
    """Yield a card for each finding; `places` are the ids of the code lines on the page, by file and line or address.

    A rule that speaks twice of a kernel gets a number for its second card.
    """
    seen: dict[str, int] = {}
    for finding in kernel.findings:
        seen[finding.rule] = seen.get(finding.rule, 0) + 1
        number = seen[finding.rule]
        place = _place(finding, places)
        yield Card(
            id=card_id(kernel.id, finding.rule) + (f"-{number}" if number > 1 else ""),
            rule=rule_name(finding.rule),
            severity=finding.severity,
            headline=printable(finding.headline),
            gain=gain_text(finding),
            certainty=CONFIDENCE_WORDS[finding.confidence],
            evidence=tuple(_evidence_row(item) for item in finding.evidence),
            why=printable(finding.why),
            advice=printable(finding.advice),
            where=printable(location_text(finding.location)),
            where_href=f"#{place}" if place is not None else None,
        )


def card_id(kernel: int, rule: str) -> str:
    """Return the id of a finding's card."""
    return identifier("finding", kernel, rule)


def rule_name(rule: str) -> str:
    """Write a rule's id as words: "uncoalesced-global" → "uncoalesced global"."""
    return rule.replace("-", " ").replace("_", " ")


def _priority_line(item: Priority, session: Session) -> PriorityLine:
    kernel, finding = item.kernel, item.finding
    return PriorityLine(
        href=f"#{card_id(kernel.id, finding.rule)}",
        headline=printable(finding.headline),
        rule=rule_name(finding.rule),
        kernel=label(kernel.label),
        kernel_id=kernel.id,
        file=source_name(session, item.kernel),
        shapes=found_in(item, session),
        gain=Bar(at_most(item.gain), percent_number(item.gain) if item.gain is not None else None),
        of="of the run"
        if item.gain_total is not None
        else "of the kernel"
        if item.gain is not None
        else "gain not known",
        confidence=finding.confidence,
        certainty=CONFIDENCE_WORDS[finding.confidence],
    )


def _evidence_row(item: Evidence) -> EvidenceRow:
    length = evidence_bar(item)
    has_mark = length is not None and item.threshold is not None
    return EvidenceRow(
        meaning=printable(item.meaning or item.metric),
        metric=printable(item.metric) if item.meaning else "",
        value=printable(value_text(item.value, item.unit)),
        threshold=printable(value_text(item.threshold, item.unit)) if item.threshold is not None else "",
        percent=percent_number(length) if length is not None else None,
        mark=percent_number(item.threshold / 100) if has_mark and item.threshold is not None else None,
    )


def _place(finding: Finding, places: Mapping[tuple[str | None, int], str]) -> str | None:
    location = finding.location
    if location is None:
        return None
    for number in (location.line, location.pc):
        if number is not None and (location.file, number) in places:
            return places[location.file, number]
    return places.get((None, location.pc)) if location.pc is not None else None
