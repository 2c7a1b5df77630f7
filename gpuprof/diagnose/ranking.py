"""The order of a kernel's findings: by what their fix is expected to save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.calibration import expected_saving
from gpuprof.diagnose.registry import rule_of
from gpuprof.diagnose.rule import Kind
from gpuprof.diagnose.thresholds import LOW, MEDIUM, WELL_USED
from gpuprof.model.session import Finding

ENOUGH = 0.5
"""A defect with half the gain of a limit or symptom can be its cause, which a smaller one is not."""
_NOTABLE = expected_saving(MEDIUM, "measured")
_ROUNDING = 1e-9
_KINDS = ("defect", "limit", "symptom")
"""Problems to fix, limits that the kernel reaches anyway, and the resulting waits of its warps."""


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort a kernel's findings, most important first.

    First those that invalidate the others; then by expected saving; then those with nothing to fix,
    and explained ones last. A limit that the kernel is at comes before guesses, small savings, and
    what can save no more than the rest up to it. A guess comes after each notable saving that is
    proven, unless it is expected to save twice as much. The verdict is about the first finding.
    """
    known = tuple(findings)
    rest = max((_gain(finding) for finding in known if is_at_limit(finding)), default=None)
    notable = [finding for finding in known if finding.severity in ("high", "medium")]
    proven = [finding for finding in notable if finding.confidence != "guess"]
    return tuple(sorted(known, key=lambda finding: _importance(finding, rest, proven)))


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


def about(finding: Finding) -> Kind:
    """Return the kind of a finding: "defect", "limit" or "symptom"."""
    return rule_of(finding).kind


def is_counted(finding: Finding) -> bool:
    """Return whether a finding rests on counts alone: its cost is not known."""
    rule = rule_of(finding)
    return finding.gain_kernel is None and not rule.by_times and rule.kind != "symptom"


def is_at_limit(finding: Finding) -> bool:
    """Return whether a kernel is at this limit by itself: near a roof, or as short as its launch."""
    rule = rule_of(finding)
    if rule.kind != "limit" or finding.cause is not None:
        return False
    is_near = finding.gain_kernel is not None and finding.gain_kernel <= 1.0 - WELL_USED + _ROUNDING
    return rule.by_times or (finding.severity == "info" and is_near)


def saving_of(finding: Finding) -> float:
    """Return what the fix of a finding is expected to save.

    Limits and symptoms count by what a defect must save to be their cause.
    """
    saving = _expected(finding)
    return saving if about(finding) == "defect" else ENOUGH * saving


_VOIDING, _WORTHWHILE, _AT_LIMIT, _BESIDE_LIMIT, _FACT = range(5)
"""Groups of findings in their order."""


def _importance(
    finding: Finding, rest: float | None, proven: Sequence[Finding]
) -> tuple[bool, int, int, bool, int, float]:
    """Return the sort key; `rest` is the gain that remains up to the limit that the kernel has reached."""
    group = _group(finding, rest)
    saving = saving_of(finding)
    is_guess = finding.confidence == "guess"
    if is_guess and ENOUGH * _expected(finding) < max(map(_expected, proven), default=0.0):
        saving = min(saving, *map(saving_of, proven))
    steps = int(saving / LOW) if group in (_WORTHWHILE, _BESIDE_LIMIT) else 0
    if group == _AT_LIMIT:
        # The nearest limit comes first.
        saving = -saving
    return finding.cause is not None, group, -steps, is_guess, _KINDS.index(about(finding)), -saving


def _group(finding: Finding, rest: float | None) -> int:
    is_sure = finding.confidence != "guess"
    rule = rule_of(finding)
    if rest is not None and is_at_limit(finding):
        return _AT_LIMIT
    if finding.severity == "info":
        return _FACT
    if rule.invalidates and is_sure:
        return _VOIDING
    if rest is None or rule.of_run:
        return _WORTHWHILE
    is_notable = is_sure and saving_of(finding) >= _NOTABLE and _gain(finding) > rest + _ROUNDING
    return _WORTHWHILE if is_notable else _BESIDE_LIMIT


def _expected(finding: Finding) -> float:
    return expected_saving(_gain(finding), finding.confidence)


def _gain(finding: Finding) -> float:
    """Return the gain for the kernel, else for the run; 0 if it is not known."""
    return finding.gain_kernel or finding.gain_total or 0.0
