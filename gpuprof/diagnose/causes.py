"""Find the cause of each finding among a kernel's other findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.case import Case
from gpuprof.diagnose.rule import Cause, Rule
from gpuprof.model.session import Finding

_Found = Sequence[tuple[Rule, Finding]]
ENOUGH = 0.5
"""A cause must gain at least half as much as its symptom: a small defect explains no long wait."""


def with_causes(findings: _Found, case: Case) -> list[Finding]:
    """Return the findings; explained ones with the `cause`'s id and severity "info".

    Of several causes the one with the largest gain counts, and of a chain of causes the first. A
    finding that invalidates all others explains them before any other cause does.
    """
    causes: dict[str, str] = {}
    for rule, finding in findings:
        causing = list(_voiding(rule, finding, findings, case))
        if not causing:
            for cause in rule.causes:
                causing += _explaining(cause, finding, findings, case)
        if causing:
            causes[finding.id] = max(causing, key=lambda other: other.gain_kernel or 0.0).id
    explained = []
    for _, finding in findings:
        first = _first_cause(finding.id, causes)
        explained.append(replace(finding, cause=first, severity="info") if first is not None else finding)
    return explained


def _voiding(rule: Rule, finding: Finding, findings: _Found, case: Case) -> Iterator[Finding]:
    """Yield the findings that invalidate this one.

    A finding that invalidates the code does not invalidate findings from the launch alone, nor a
    roof that the kernel is at.
    """
    if rule.of_run or rule.invalidates == "time":
        return
    stays = (
        rule.by_times
        or rule.survives_code_change(case)
        or rule.invalidates
        or (rule.kind == "limit" and finding.severity == "info")
    )
    for other_rule, other in findings:
        is_of_time = other_rule.invalidates == "time" and other.severity != "info"
        if is_of_time or (other_rule.invalidates == "code" and not stays and _is_enough(other_rule, other, finding)):
            yield other


def _explaining(cause: Cause, symptom: Finding, findings: _Found, case: Case) -> list[Finding]:
    return [
        finding
        for rule, finding in findings
        if rule.id == cause.rule and finding.id != symptom.id
        if _is_enough(rule, finding, symptom) or (finding.confidence != "guess" and cause.most(finding))
        if cause.what(finding) and cause.when(case)
    ]


def _is_enough(rule: Rule, finding: Finding, symptom: Finding) -> bool:
    """Return whether a finding is sure and large enough to explain a symptom.

    A limit that the kernel is at explains all waits for it, whatever its gain. So does a kernel
    that is as short as its launch.
    """
    if finding.confidence == "guess":
        return False
    if rule.kind == "limit" and (finding.severity == "info" or rule.by_times):
        return True
    return finding.severity != "info" and (finding.gain_kernel or 0.0) >= ENOUGH * (symptom.gain_kernel or 0.0)


def _first_cause(name: str, causes: dict[str, str]) -> str | None:
    """Return the first of a chain of causes; None if two of them explain each other."""
    seen = [name]
    while seen[-1] in causes:
        before = causes[seen[-1]]
        if before in seen:
            return None
        seen.append(before)
    return seen[-1] if len(seen) > 1 else None
