"""What to change first over all kernels: each change once, however many kernels it helps, the most worthwhile first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.causes import ENOUGH
from gpuprof.diagnose.needs import together
from gpuprof.diagnose.ranking import about, unique
from gpuprof.diagnose.registry import is_of_run, rule_named
from gpuprof.diagnose.set_up import set_up_kernels
from gpuprof.diagnose.without_durations import is_of_launch_alone, small_and_untimed
from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.session import Finding, KernelProfile, Recommendation

Member = tuple[KernelProfile, Finding]

_LEAST_OF_RUN = 0.005
"""A change that saves less of the run is left to its kernel."""
_ROUNDING = 1e-9
"""What shares of a kernel's time may differ by when they are added in another order."""


def recommendations(kernels: Sequence[KernelProfile], busy: float = 1.0) -> tuple[Recommendation, ...]:
    """Return the changes that are worth their while; guesses come after all others, set-up kernels last.

    `busy` is the part of the run that its kernels take.

    Without durations nothing is known of the run: those come by what they gain of their kernel, and the launch of a
    small one is left to it.
    """
    set_up = set_up_kernels(kernels)
    made = [_recommendation(group, set_up) for group in _groups(kernels, set_up)]
    worthwhile = [item for item in made if item.gain_total is None or item.gain_total >= _LEAST_OF_RUN]
    by_id = {finding.id: (kernel, finding) for kernel in kernels for finding in kernel.findings}
    worthwhile.sort(key=lambda item: _rank(item, by_id))
    ids = unique(item.rule for item in worthwhile)
    named = [replace(item, id=name) for item, name in zip(worthwhile, ids, strict=True)]
    return tuple(_after_those_before(named, by_id, busy))


def _groups(kernels: Sequence[KernelProfile], set_up: frozenset[int]) -> Iterable[list[Member]]:
    """Group the findings by what is to be changed, that of the largest gain first in each group.

    Guesses are groups of their own, as are set-up kernels: what is measured of one kernel may be a guess of another.
    """
    groups: dict[tuple[str, tuple[str, ...], bool, bool], list[Member]] = {}
    small = small_and_untimed(kernels)
    for kernel in kernels:
        for finding in kernel.findings:
            if not is_recommendation(kernel, finding) or (kernel.id in small and is_of_launch_alone(finding)):
                continue
            is_guess, sets_up = finding.confidence == "guess", _only_sets_up(kernel, finding, set_up)
            key = (finding.rule, finding.cases.action, is_guess, sets_up)
            groups.setdefault(key, []).append((kernel, finding))
    for members in groups.values():
        yield sorted(members, key=lambda member: -_gain(member[1]))


def _only_sets_up(kernel: KernelProfile, finding: Finding, set_up: frozenset[int]) -> bool:
    """Tell whether a finding is of a kernel that only sets up; one on the run is told of a kernel, and not of it."""
    return kernel.id in set_up and not is_of_run(finding)


def is_recommendation(kernel: KernelProfile, finding: Finding) -> bool:
    """Tell whether a finding is something to change: it gains, nothing else explains it, and no defect comes before.

    A limit or symptom of a kernel with a defect of medium or high severity, no less severe and of at least half its
    gain, changes when that is fixed.
    """
    if finding.severity == "info" or finding.cause is not None:
        return False
    if about(finding) == "defect":
        return True
    return not any(_outweighs(other, finding) for other in kernel.findings)


def _outweighs(defect: Finding, finding: Finding) -> bool:
    if defect.severity not in ("high", "medium") or about(defect) != "defect":
        return False
    if SEVERITIES.index(defect.severity) > SEVERITIES.index(finding.severity):
        return False
    return (defect.gain_kernel or 0.0) >= ENOUGH * (finding.gain_kernel or 0.0)


def _recommendation(members: Sequence[Member], set_up: frozenset[int]) -> Recommendation:
    first = members[0][1]
    # Two findings of one kernel with the same change are of the same time: the larger counts.
    totals: dict[int, float] = {}
    for kernel, finding in members:
        if finding.gain_total is not None:
            totals[kernel.id] = max(totals.get(kernel.id, 0.0), finding.gain_total)
    kinds = {finding.gain_kind for _, finding in members}
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
        gain_total=min(1.0, sum(totals.values())) if totals else None,
        gain_after=None,
        gain_kind=first.gain_kind if len(kinds) == 1 else "conditional",
        held=None,
        assumes=first.assumes if len(kinds) == 1 else ("each-finding",),
        set_up=all(_only_sets_up(kernel, finding, set_up) for kernel, finding in members),
    )


def _rank(item: Recommendation, by_id: Mapping[str, Member]) -> tuple[bool, bool, bool, bool, float]:
    """What voids all else comes first of its sort: after it there is another program to judge."""
    gain = item.gain_total if item.gain_total is not None else _gain(by_id[item.findings[0]][1])
    rule = rule_named(item.rule)
    voids = rule is not None and rule.invalidates
    return item.set_up, item.confidence == "guess", not voids, item.gain_total is None, -gain


def _gain(finding: Finding) -> float:
    return finding.gain_total if finding.gain_total is not None else finding.gain_kernel or 0.0


def _after_those_before(
    items: Iterable[Recommendation], by_id: Mapping[str, Member], busy: float
) -> Iterable[Recommendation]:
    """Add what each still saves once those before it are done: changes of one kernel overlap."""
    done: dict[int, list[Finding]] = {}
    saved: dict[int, float] = {}
    for item in items:
        after, counted = 0.0, set[int]()
        for name in item.findings:
            kernel, finding = by_id[name]
            if kernel.id in counted:
                continue
            counted.add(kernel.id)
            if finding.gain_kernel is None or kernel.time_share is None:
                after += finding.gain_total or 0.0
                continue
            before = done.setdefault(kernel.id, [])
            part = _still_saved(finding, before, saved.get(kernel.id, 0.0))
            after += part * kernel.time_share * busy
            before.append(finding)
            saved[kernel.id] = saved.get(kernel.id, 0.0) + part
        yield replace(item, gain_after=min(1.0, after) if item.gain_total is not None else None)


def _still_saved(finding: Finding, before: Sequence[Finding], saved: float) -> float:
    """Return the part of its kernel's time that a change still saves after others that saved so much, all perfect."""
    floor = together([other.remains for other in (*before, finding)])
    left = 1.0 - saved - floor
    return min(finding.gain_kernel or 0.0, left) if left > _ROUNDING else 0.0
