"""The recommended changes: each once for all kernels that it helps, most worthwhile first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.bounds import together
from gpuprof.diagnose.calibration import expected_saving
from gpuprof.diagnose.ranking import ENOUGH, about, is_at_limit, unique
from gpuprof.diagnose.registry import is_of_run, rule_of
from gpuprof.diagnose.thresholds import LOW
from gpuprof.diagnose.without_durations import is_of_launch_alone, small_and_untimed
from gpuprof.model.session import Finding, KernelProfile, Recommendation
from gpuprof.model.set_up import set_up_kernels

Member = tuple[KernelProfile, Finding]

_LEAST_OF_RUN = 0.005
"""A change that saves less of the run is only reported with its kernel."""
_ROUNDING = 1e-9
"""Rounding error of sums of a kernel's shares of time."""


def recommendations(kernels: Sequence[KernelProfile], busy: float = 1.0) -> tuple[Recommendation, ...]:
    """Return the worthwhile changes by what they are expected to save, set-up kernels last.

    `busy` is the part of the run that its kernels take.

    Without durations the gain of the run is not known: rank changes by the gain of their kernel,
    and leave out findings on the launch of a small one.
    """
    worthwhile = []
    for sets_up, members in _groups(kernels):
        item = _recommendation(members, sets_up)
        if item.gain_total is None or item.gain_total >= _LEAST_OF_RUN:
            worthwhile.append((item, members))
    worthwhile.sort(key=lambda pair: _rank(*pair))
    return tuple(_after_those_before(worthwhile, busy))


def _groups(kernels: Sequence[KernelProfile]) -> Iterator[tuple[bool, list[Member]]]:
    """Group the findings by the change that they need, the largest gain first in each group.

    Guesses have groups of their own, because a finding can be measured for one kernel and a guess
    for another. So have kernels that only set up, unless the finding is on the run.
    """
    groups: dict[tuple[bool, bool, str, tuple[str, ...]], list[Member]] = {}
    set_up = set_up_kernels(kernels)
    small = small_and_untimed(kernels)
    for kernel in kernels:
        for finding in kernel.findings:
            if not is_recommendation(kernel, finding) or (kernel.id in small and is_of_launch_alone(finding)):
                continue
            sets_up = kernel.id in set_up and not is_of_run(finding)
            key = (sets_up, finding.confidence == "guess", finding.rule, finding.cases.action)
            groups.setdefault(key, []).append((kernel, finding))
    for key, members in groups.items():
        yield key[0], sorted(members, key=lambda member: -_gain(member[1]))


def is_recommendation(kernel: KernelProfile, finding: Finding) -> bool:
    """Return whether a finding is worth a change: neither explained nor outweighed.

    A limit or symptom changes when a defect of the same kernel is fixed, if the defect is of medium
    or high severity, no less severe than it, and has at least half its gain.
    """
    if finding.severity == "info" or finding.cause is not None:
        return False
    if about(finding) == "defect":
        return True
    severities = ("high",) if finding.severity == "high" else ("high", "medium")
    enough = ENOUGH * (finding.gain_kernel or 0.0)
    return not any(
        about(other) == "defect" and other.severity in severities and (other.gain_kernel or 0.0) >= enough
        for other in kernel.findings
    )


def _recommendation(members: Sequence[Member], sets_up: bool) -> Recommendation:
    first = members[0][1]
    totals = [finding.gain_total for _, finding in _one_of_each(members) if finding.gain_total is not None]
    is_of_one_kind = all(finding.gain_kind == first.gain_kind for _, finding in members)
    return Recommendation(
        id=first.rule,
        rule=first.rule,
        findings=tuple(finding.id for _, finding in members),
        kernels=tuple(dict.fromkeys(kernel.id for kernel, _ in members)),
        headline="",
        action="",
        place=first.place,
        severity=first.severity,
        confidence=first.confidence,
        gain_total=min(1.0, sum(totals)) if totals else None,
        gain_after=None,
        gain_kind=first.gain_kind if is_of_one_kind else "conditional",
        held=None,
        assumes=first.assumes if is_of_one_kind else ("each-finding",),
        set_up=sets_up,
    )


def _one_of_each(members: Sequence[Member]) -> list[Member]:
    """Return the first finding of each kernel: others with the same change save the same time."""
    return list({kernel.id: (kernel, finding) for kernel, finding in reversed(members)}.values())[::-1]


def _rank(item: Recommendation, members: Sequence[Member]) -> tuple[bool, bool, bool, bool, int, bool, float]:
    """Return the sort key.

    A finding that invalidates others comes first, because it changes the program. A guess comes
    last if its kernel is at a limit, and after other gains of about the same size.
    """
    kernel, finding = members[0]
    gain = item.gain_total if item.gain_total is not None else _gain(finding)
    is_guess = item.confidence == "guess"
    invalidates = rule_of(finding).invalidates != "" and not is_guess
    is_beside_limit = is_guess and not is_of_run(finding) and any(map(is_at_limit, kernel.findings))
    saving = expected_saving(gain, item.confidence)
    steps = int(saving / LOW)
    return item.set_up, not invalidates, is_beside_limit, item.gain_total is None, -steps, is_guess, -saving


def _gain(finding: Finding) -> float:
    return finding.gain_total if finding.gain_total is not None else finding.gain_kernel or 0.0


def _after_those_before(
    ranked: Sequence[tuple[Recommendation, Sequence[Member]]], busy: float
) -> Iterator[Recommendation]:
    """Add ids, and the saving that each change still has after those before it."""
    done: dict[int, list[Finding]] = {}
    saved: dict[int, float] = {}
    ids = unique(item.rule for item, _ in ranked)
    for (item, members), id_ in zip(ranked, ids, strict=True):
        after = 0.0
        for kernel, finding in _one_of_each(members):
            if finding.gain_kernel is None or kernel.time_share is None:
                after += finding.gain_total or 0.0
                continue
            before = done.setdefault(kernel.id, [])
            before.append(finding)
            left = 1.0 - saved.get(kernel.id, 0.0) - together([other.remains for other in before])
            part = min(finding.gain_kernel, left) if left > _ROUNDING else 0.0
            after += part * kernel.time_share * busy
            saved[kernel.id] = saved.get(kernel.id, 0.0) + part
        yield replace(item, id=id_, gain_after=min(1.0, after) if item.gain_total is not None else None)
