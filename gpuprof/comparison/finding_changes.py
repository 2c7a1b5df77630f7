"""Findings that went, came and stayed, with the bound on the gain and the measured gain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpuprof.comparison.contract import (
    FindingChange,
    FindingWord,
    SourceLine,
    TimeChange,
    ValueChange,
)
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

    A finding of one side alone counts only if the counters that it is based on were collected on
    the other side, too.
    """
    if not pair.base or not pair.new:
        return ()
    base = _by_rule(pair.base)
    new = _by_rule(pair.new)
    had = _collected(pair.base)
    has = _collected(pair.new)
    changes: list[FindingChange] = []
    for rule in dict.fromkeys((*base, *new)):
        before = base.get(rule, [])
        after = new.get(rule, [])
        common = min(len(before), len(after))
        changes += [_change("stayed", *both, time) for both in zip(before, after, strict=False)]
        if _could_be_found(rule, had, has):
            changes += [_change("went", finding, None, time) for finding in before[common:]]
        if _could_be_found(rule, has, had):
            changes += [_change("came", None, finding, time) for finding in after[common:]]
    return tuple(sorted(changes, key=lambda change: (_ORDER[change.word], SEVERITIES.index(change.severity))))


def beyond_bound(pair: Pair, time: TimeChange) -> ValueChange | None:
    """Return the bound of the only finding that went, and the gain, if that is larger; the name is that of the rule."""
    went = [change for change in finding_changes(pair, time) if change.word == "went" and change.promised]
    if len(went) != 1 or went[0].gained is None or went[0].promised is None:
        return None
    (change,) = went
    first = _by_rule(pair.base)[change.rule][0]
    if first.gain_kind != "bound" or went[0].gained <= went[0].promised + _BEYOND:
        return None
    return ValueChange(name=change.rule, unit="fraction", base=change.promised, new=change.gained)


def _by_rule(kernels: Sequence[SideKernel]) -> dict[str, list[Finding]]:
    rules: defaultdict[str, list[Finding]] = defaultdict(list)
    for kernel in kernels:
        for finding in kernel.representative.findings:
            rules[finding.rule].append(finding)
    return rules


def _collected(kernels: Sequence[SideKernel]) -> frozenset[str]:
    """Return the kinds of counters that all kernels of a side have."""
    return frozenset.intersection(*(frozenset(_kinds(kernel.representative)) for kernel in kernels))


def _kinds(kernel: KernelProfile) -> Iterator[str]:
    scheduler = kernel.scheduler
    kinds = {
        "throughput": kernel.throughput,
        "pipes": kernel.pipes,
        "counts": kernel.counts,
        "occupancy": kernel.occupancy.achieved is not None,
        "issue": scheduler is not None and scheduler.issue_active is not None,
        "operations": any(work.path in ("fp32", "fp64") and work.flop is not None for work in kernel.work),
        "code": kernel.excerpts,
    }
    yield from (kind for kind, present in kinds.items() if present)
    yield from (f"stalls.{stall.family}" for stall in kernel.stalls)
    yield from (f"traffic.{traffic.level}" for traffic in kernel.traffic if traffic.basis == "counted")


def _could_be_found(rule: str, there: frozenset[str], here: frozenset[str]) -> bool:
    """Return whether a rule that found something had the counters for it on the other side, too."""
    known = rule_named(rule)
    return there <= here or (known is not None and known.by_times)


def _change(word: FindingWord, base: Finding | None, new: Finding | None, time: TimeChange) -> FindingChange:
    finding = new or base
    assert finding is not None, "a change is of a finding"
    gained = None
    if word == "went" and time.verdict in ("same", "faster", "slower") and time.ratio is not None:
        gained = 1.0 - time.ratio
    return FindingChange(
        word=word,
        id=finding.id,
        rule=finding.rule,
        severity=finding.severity,
        base=base.headline if base is not None else "",
        new=new.headline if new is not None else "",
        promised=base.gain_kernel if base is not None else None,
        gained=gained,
        location=source_line(finding),
    )


def source_line(finding: Finding) -> SourceLine | None:
    """Return the line of a finding; None if it is not known."""
    place = finding.place
    if place is None or place.file is None or place.line is None:
        return None
    return SourceLine(place.file, place.line)
