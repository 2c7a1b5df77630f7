"""Findings on the page: the lines of "Fix first", and a card for each finding of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpuprof.model.session import Evidence, Finding, KernelProfile
from gpuprof.present.page.parts import KernelLabel, label, percent_number
from gpuprof.views.kernel import finding_anchor
from gpuprof.words.finding_text import (
    cause_of,
    cause_text,
    certainty_text,
    gain_text,
    location_text,
    remains_text,
    value_text,
)
from gpuprof.words.missing_metrics import without_counters
from gpuprof.words.recommendations import RecommendationText
from gpuprof.words.sentences import change_texts


class FixLine(Struct, frozen=True):
    """One line of "Fix first". The bar's full length is the whole run, or the kernel where no time is known.

    What is doubted stands behind the others and has no bar, unless all is doubted.
    """

    fix: RecommendationText
    href: str
    kernels: KernelLabel
    bar: str | None
    certainty: str


class EvidenceRow(Struct, frozen=True):
    """A value that a finding rests on; `percent` and `mark` place a percentage and its threshold on a bar."""

    meaning: str
    metric: str
    value: str
    threshold: str
    percent: str | None
    mark: str | None


class Card(Struct, frozen=True):
    """Everything about one finding."""

    id: str
    rule: str
    severity: str
    headline: str
    gain: str
    remains: str
    cause: str
    cause_href: str | None
    certainty: str
    evidence: tuple[EvidenceRow, ...]
    why: str
    action: str
    advice: str
    where: str
    where_href: str | None


def cards(kernel: KernelProfile, places: Mapping[tuple[str | None, int], str]) -> Iterator[Card]:
    """Yield a card for each finding; `places` are the ids of the code lines on the page, by file and number."""
    for finding in kernel.findings:
        place, cause = _place(finding, places), cause_of(finding, kernel)
        *action, advice = change_texts(finding.action, finding.advice) or ("",)
        yield Card(
            id=finding_anchor(finding),
            rule=rule_name(finding.rule),
            severity=finding.severity,
            headline=finding.headline,
            gain=gain_text(finding),
            remains=remains_text(finding),
            cause=cause_text(finding, kernel),
            cause_href=f"#{finding_anchor(cause)}" if cause is not None else None,
            certainty=certainty_text(finding.confidence, only_times=without_counters(kernel) is not None),
            evidence=tuple(evidence_row(item) for item in finding.evidence),
            why=finding.why,
            action=action[0] if action else "",
            advice=advice,
            where=location_text(finding.place),
            where_href=f"#{place}" if place is not None else None,
        )


def rule_name(rule: str) -> str:
    """Write a rule's id as words: "uncoalesced-global" → "uncoalesced global"."""
    return rule.replace("-", " ").replace("_", " ")


def evidence_row(item: Evidence) -> EvidenceRow:
    """Return a value that a finding rests on, with its bar where it is a percentage."""
    is_share = item.unit == "%"
    return EvidenceRow(
        meaning=item.meaning or item.metric,
        metric=item.metric if item.meaning else "",
        value=value_text(item.value, item.unit),
        threshold=value_text(item.threshold, item.unit) if item.threshold is not None else "",
        percent=percent_number(item.value / 100) if is_share else None,
        mark=percent_number(item.threshold / 100) if is_share and item.threshold is not None else None,
    )


def fix_line(item: RecommendationText, *, only_times: bool) -> FixLine:
    """Return a fix with its bar, and with what it links to."""
    return FixLine(
        fix=item,
        href=f"#{finding_anchor(item.finding)}",
        kernels=label(item.kernels),
        bar=percent_number(item.bar) if item.bar is not None else None,
        certainty=certainty_text(item.confidence, only_times=only_times),
    )


def _place(finding: Finding, places: Mapping[tuple[str | None, int], str]) -> str | None:
    location = finding.place
    if location is None:
        return None
    for number in (location.line, location.pc):
        if number is not None and (location.file, number) in places:
            return places[location.file, number]
    return places.get((None, location.pc)) if location.pc is not None else None
