"""The order of findings: within a kernel by what they can gain and how sure they are, over the run by time saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuprof.diagnose.rule import WEIGHTS, expected_gain
from gpuprof.model.session import SEVERITIES, Finding, KernelProfile, Ranked


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort a kernel's findings, most important first."""
    return tuple(sorted(findings, key=_importance))


def _importance(finding: Finding) -> tuple[int, float]:
    return SEVERITIES.index(finding.severity), -expected_gain(finding)


def ranking(kernels: Sequence[KernelProfile]) -> tuple[Ranked, ...]:
    """Rank the findings of all kernels by what they can save of the run; what has nothing to gain is left out.

    Of kernels without a duration nothing is known of the run: they come last, by severity.
    """
    candidates = [(kernel, finding) for kernel in kernels for finding in kernel.findings if finding.severity != "info"]
    candidates.sort(key=lambda pair: _rank(*pair))
    return tuple(Ranked(kernel.id, finding.rule, finding.gain_total) for kernel, finding in candidates)


def _rank(kernel: KernelProfile, finding: Finding) -> tuple[bool, float, tuple[int, float], int]:
    total = finding.gain_total
    expected = total * WEIGHTS[finding.confidence] if total is not None else 0.0
    return total is None, -expected, _importance(finding), kernel.id
