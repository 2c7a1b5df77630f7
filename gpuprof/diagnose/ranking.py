"""The order of a kernel's findings: defects by their gain, then limits, then symptoms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.registry import rule_named
from gpuprof.diagnose.thresholds import HIGH
from gpuprof.model.field_types import SEVERITIES
from gpuprof.model.session import Finding

_ROUNDING = 1e-9
_NEAR_ROOF = 1.5
"""Rank of a limit of severity "info" (near the roof): between medium and small findings."""


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort a kernel's findings, most important first.

    Those that another finding explains come last. A roof that the kernel is near comes before the
    first that gains no more than the rest to it.
    """
    ranked = sorted(findings, key=_importance)
    roof = next((finding for finding in ranked if _is_roof(finding)), None)
    if roof is None:
        return tuple(ranked)
    ranked.remove(roof)
    place = 0
    while place < len(ranked) and _precedes(ranked[place], roof):
        place += 1
    return (*ranked[:place], roof, *ranked[place:])


def _is_roof(finding: Finding) -> bool:
    return finding.severity == "info" and finding.cause is None and about(finding) == "limit"


def _precedes(finding: Finding, roof: Finding) -> bool:
    """Return whether a finding is more important than a roof that the kernel is near."""
    if _importance(finding) >= _importance(roof):
        return False
    rule, gain = rule_named(finding.rule), finding.gain_kernel
    is_void = rule is not None and rule.invalidates != ""
    return is_void or gain is None or gain > (roof.gain_kernel or 0.0) + _ROUNDING


def numbered(findings: Sequence[Finding], kernel: int) -> list[Finding]:
    """Give findings their ids: "3.tail-effect", then "3.tail-effect.2" for a rule's second one."""
    names = unique(finding.rule for finding in findings)
    return [replace(finding, id=f"{kernel}.{name}") for finding, name in zip(findings, names, strict=True)]


def unique(names: Iterable[str]) -> Iterator[str]:
    """Yield names, with a number after repeated ones: "tail-effect", "tail-effect.2"."""
    times: Counter[str] = Counter()
    for name in names:
        times[name] += 1
        yield f"{name}.{times[name]}" if times[name] > 1 else name


def about(finding: Finding) -> str:
    """Return the kind of a finding: "defect", "limit" or "symptom"."""
    rule = rule_named(finding.rule)
    return rule.kind if rule is not None else "defect"


def is_counted(finding: Finding) -> bool:
    """Return whether a finding rests on counts alone: its cost is not known."""
    rule = rule_named(finding.rule)
    return finding.gain_kernel is None and rule is not None and not rule.by_times and rule.kind != "symptom"


_KINDS = ("defect", "limit", "symptom")
"""Problems to fix, limits that the kernel reaches anyway, and the resulting waits of its warps."""


def _importance(finding: Finding) -> tuple[bool, float, bool, bool, bool, int, float]:
    kind = about(finding)
    rank: float = SEVERITIES.index(finding.severity)
    if finding.severity == "info" and kind == "limit":
        rank = _NEAR_ROOF
    rule = rule_named(finding.rule)
    is_beside = rule is None or not rule.invalidates
    gain = finding.gain_kernel or 0.0
    is_guess = finding.confidence == "guess"
    is_small_guess = is_guess and gain < HIGH
    return finding.cause is not None, rank, is_beside, is_guess, is_small_guess, _KINDS.index(kind), -gain
