"""The name of a rule and the evidence of a finding on a page."""

from __future__ import annotations

from msgspec import Struct

from gpuprof.model.session import Evidence
from gpuprof.present.page.parts import percent_number
from gpuprof.words.finding_text import value_text


class EvidenceRow(Struct, frozen=True):
    """A value that a finding rests on; `percent` and `mark` place a percentage and its threshold on a bar."""

    meaning: str
    metric: str
    value: str
    threshold: str
    percent: str | None
    mark: str | None


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
