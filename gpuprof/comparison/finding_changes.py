"""Findings that went, came and stayed, with the bound on the gain of a fix and the measured gain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpuprof.comparison.contract import FindingChange, FindingWord, SourceLine, TimeChange, ValueChange
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import SideKernel
from gpuprof.diagnose.registry import rule_named
from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.session import Finding, KernelProfile

_ORDER: dict[FindingWord, int] = {"went": 0, "came": 1, "stayed": 2}
_BEYOND = 0.02
"""A gain beyond its bound by two points or fewer is the noise of two durations."""


def finding_changes(pair: Pair, time: TimeChange) -> tuple[FindingChange, ...]:
    """Return the findings that went, that came and that stayed, each by severity.

    A finding of one side alone counts only if the counters that it is based on were collected on the other side, too.
    """
    if not pair.base or not pair.new:
        return ()
    base, new = _by_rule(pair.base), _by_rule(pair.new)
    had, has = _collected(pair.base), _collected(pair.new)
    changes: list[FindingChange] = []
    for rule in dict.fromkeys((*base, *new)):
        before, after = base.get(rule, []), new.get(rule, [])
        both = min(len(before), len(after))
        changes += [_change("stayed", *both, time) for both in zip(before, after, strict=False)]
        if _could_be_found(rule, had, has):
            changes += [_change("went", finding, None, time) for finding in before[both:]]
        if _could_be_found(rule, has, had):
            changes += [_change("came", None, finding, time) for finding in after[both:]]
    return tuple(sorted(changes, key=lambda change: (_ORDER[change.word], SEVERITIES.index(change.severity))))


def beyond_bound(pair: Pair, time: TimeChange) -> ValueChange | None:
    """Return the bound of the only finding that went, and the gain, if that is larger; the name is that of the rule."""
    went = [change for change in finding_changes(pair, time) if change.word == "went" and change.promised]
    if len(went) != 1 or went[0].gained is None or went[0].promised is None:
        return None
    rule, promised, gained = went[0].rule, went[0].promised, went[0].gained
    first = _by_rule(pair.base)[rule][0]
    if first.gain_kind != "bound" or gained <= promised + _BEYOND:
        return None
    return ValueChange(name=rule, unit="fraction", base=promised, new=gained)


def _by_rule(kernels: Sequence[SideKernel]) -> dict[str, list[Finding]]:
    rules: defaultdict[str, list[Finding]] = defaultdict(list)
    for kernel in kernels:
        for finding in kernel.representative.findings:
            rules[finding.rule].append(finding)
    return rules


def _collected(kernels: Sequence[SideKernel]) -> frozenset[str]:
    """Return the kinds of counters that all kernels of a side have."""
    sides = [frozenset(_kinds(kernel.representative)) for kernel in kernels]
    return frozenset.intersection(*sides)


def _kinds(kernel: KernelProfile) -> Iterator[str]:
    for name, present in (
        ("throughput", kernel.throughput),
        ("pipes", kernel.pipes),
        ("counts", kernel.counts),
        ("occupancy", kernel.occupancy.achieved is not None),
        ("issue", kernel.scheduler is not None and kernel.scheduler.issue_active is not None),
        ("operations", any(work.path in ("fp32", "fp64") and work.flop is not None for work in kernel.work)),
        ("code", kernel.excerpts),
    ):
        if present:
            yield name
    for stall in kernel.stalls:
        yield f"stalls.{stall.family}"
    for traffic in kernel.traffic:
        if traffic.basis == "counted":
            yield f"traffic.{traffic.level}"


def _could_be_found(rule: str, there: frozenset[str], here: frozenset[str]) -> bool:
    """Return whether a rule that found something on one side had the counters for it on the other one, too."""
    known = rule_named(rule)
    return there <= here or (known is not None and known.by_times)


def _change(word: FindingWord, base: Finding | None, new: Finding | None, time: TimeChange) -> FindingChange:
    told = new or base
    assert told is not None, "a change is of a finding"
    judged = time.verdict in ("same", "faster", "slower") and time.ratio is not None
    return FindingChange(
        word=word,
        id=told.id,
        rule=told.rule,
        severity=told.severity,
        base=base.headline if base is not None else "",
        new=new.headline if new is not None else "",
        promised=base.gain_kernel if base is not None else None,
        gained=1.0 - time.ratio if word == "went" and judged and time.ratio is not None else None,
        location=source_line(told),
    )


def source_line(finding: Finding) -> SourceLine | None:
    """Return the line of a finding; None if it is not known."""
    place = finding.place
    if place is None or place.file is None or place.line is None:
        return None
    return SourceLine(place.file, place.line)
