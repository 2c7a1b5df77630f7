"""The order of findings: within a kernel by what they can gain and how sure they are, over the run by time saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuprof.diagnose.registry import rule_named
from gpuprof.diagnose.rule import ABOUT, WEIGHTS
from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.session import Finding, KernelProfile, Ranked

_NEAR_ROOF = 1.5
"""A kernel near its roof is told so before its small findings, and after anything of medium severity."""


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort a kernel's findings, most important first."""
    return tuple(sorted(findings, key=_importance))


def ranking(kernels: Sequence[KernelProfile]) -> tuple[Ranked, ...]:
    """Rank the findings of all kernels by what they can save of the run; what has nothing to gain is left out.

    Of kernels without a duration nothing is known of the run: they come last, by severity.
    """
    candidates = [(kernel, finding) for kernel in kernels for finding in kernel.findings if finding.severity != "info"]
    candidates.sort(key=lambda pair: _rank(*pair))
    return tuple(Ranked(kernel.id, finding.rule, finding.gain_total) for kernel, finding in candidates)


def expected_gain(finding: Finding) -> float:
    """Return the part of a finding's gain of the run that it is ranked by: its upper bound, weighed by its trust."""
    return (finding.gain_total or 0.0) * _trust(finding)


def changes_with_a_repair(kernel: KernelProfile, finding: Finding) -> bool:
    """Tell whether a finding is a limit or symptom of a kernel with a defect of medium or high severity.

    Repairing the defect changes it, so it is not among what to fix first.
    """
    if _about(finding) == "defect":
        return False
    return any(finding.severity in ("high", "medium") and _about(finding) == "defect" for finding in kernel.findings)


def _importance(finding: Finding) -> tuple[float, float]:
    rank: float = SEVERITIES.index(finding.severity)
    if finding.severity == "info" and _about(finding) == "limit":
        rank = _NEAR_ROOF
    return rank, -(finding.gain_kernel or 0.0) * _trust(finding)


def _rank(kernel: KernelProfile, finding: Finding) -> tuple[bool, float, tuple[float, float], int]:
    return finding.gain_total is None, -expected_gain(finding), _importance(finding), kernel.id


def _trust(finding: Finding) -> float:
    """Return how much of its upper bound a finding is taken for."""
    return WEIGHTS[finding.confidence] * ABOUT.get(_about(finding), 1.0)


def _about(finding: Finding) -> str:
    rule = rule_named(finding.rule)
    return rule.about if rule is not None else "defect"
