"""What to repair first over all kernels: the shapes of a kernel as one, causes before what they bring about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuprof.diagnose.ranking import changes_with_a_repair, expected_gain
from gpuprof.model.session import Finding, KernelProfile, Ranked, Session

FIX_FIRST = 5
"""How many findings over all kernels a reader is told first."""
_LEAST_OF_RUN = 0.005
"""A finding that saves less of the run is left to its kernel."""


@dataclass(frozen=True, slots=True)
class Priority:
    """What one rule finds in one kernel: in `shapes` of its launch shapes (or launches).

    `kernel` and `finding` are those of the shape that is ranked first, `gain_total` is the gain of the run over all.
    """

    kernel: KernelProfile
    finding: Finding
    shapes: int
    gain_total: float | None

    @property
    def gain(self) -> float | None:
        """What it can gain of the run, else of its kernel."""
        return self.gain_total if self.gain_total is not None else self.finding.gain_kernel


def fix_first(session: Session, limit: int = FIX_FIRST) -> list[Priority]:
    """Return the findings to repair first, the shapes of a kernel as one, without those that hardly change the run."""
    groups = sorted(_same_findings(session), key=_rank_of_group)
    priorities = []
    for group in groups:
        kernel, finding = group[0]
        gain_total = _total_gain(finding for _, finding in group)
        if gain_total is None or gain_total >= _LEAST_OF_RUN:
            priorities.append(Priority(kernel, finding, len(group), gain_total=gain_total))
    return priorities[:limit]


def _same_findings(session: Session) -> Iterable[list[tuple[KernelProfile, Finding]]]:
    """Group what a rule finds in a kernel's shapes, in the order of the ranking; a rule may speak twice of each.

    A kernel's limits and symptoms are left out behind a defect: repairing that changes them.
    """
    kernels = {kernel.id: kernel for kernel in session.kernels}
    groups: dict[tuple[object, ...], list[tuple[KernelProfile, Finding]]] = {}
    spoken: Counter[tuple[int, str]] = Counter()
    for item in session.ranking:
        kernel = kernels.get(item.kernel)
        finding = _ranked_finding(kernel, item) if kernel is not None else None
        if kernel is None or finding is None or changes_with_a_repair(kernel, finding):
            continue
        spoken[item.kernel, item.rule] += 1
        same = (kernel.source, kernel.device, kernel.label, item.rule, spoken[item.kernel, item.rule])
        groups.setdefault(same, []).append((kernel, finding))
    return groups.values()


def _rank_of_group(group: Sequence[tuple[KernelProfile, Finding]]) -> tuple[bool, float]:
    """Groups without a gain of the run come last and stay in the order of the ranking."""
    return group[0][1].gain_total is None, -sum(expected_gain(finding) for _, finding in group)


def _total_gain(findings: Iterable[Finding]) -> float | None:
    gains = [finding.gain_total for finding in findings if finding.gain_total is not None]
    return sum(gains) if gains else None


def _ranked_finding(kernel: KernelProfile, item: Ranked) -> Finding | None:
    """Return the finding that an entry of the ranking is about: a rule may find two things in one kernel."""
    same = [finding for finding in kernel.findings if finding.rule == item.rule]
    return next((finding for finding in same if finding.gain_total == item.gain_total), same[0] if same else None)
