"""Whether what is told of a kernel is what an expert expects: the cause first or among three, nothing misleading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.verdicts.expected import NOTHING, SET_UP, Expected
from benchmarks.verdicts.told import ReportTold, Told
from gpuprof.diagnose.registry import rule_named

GENERIC = "latency-bound"
"""The finding that nothing is busy, which names no cause."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of equal launches: right is what is right of each of them, and misleading or silent what one of them is.

    `first` is the first finding of that launch which is judged worst; None where nothing was found.
    """

    expected: Expected
    first: Told | None
    set_up: bool
    right: bool
    among_three: bool
    misled_by: tuple[str, ...]
    silent: bool

    @property
    def misleads(self) -> bool:
        """Tell whether anything sends the reader the wrong way."""
        return bool(self.misled_by)


def judged(expected: Expected, report: ReportTold) -> Judgement:
    """Judge what is told of the launches of an entry."""
    launches = [_judged(expected, report.launches[launch], launch in report.set_up) for launch in expected.launches]
    worst = min(launches, key=lambda item: (item.right, not item.misleads, item.among_three, not item.silent))
    return Judgement(
        expected=expected,
        first=worst.first,
        set_up=worst.set_up,
        right=all(item.right for item in launches),
        among_three=all(item.among_three for item in launches),
        misled_by=tuple(dict.fromkeys(rule for item in launches for rule in item.misled_by)),
        silent=any(item.silent for item in launches),
    )


def _judged(expected: Expected, findings: Sequence[Told], set_up: bool) -> Judgement:
    first = findings[0] if findings else None
    right = _is_right(expected, findings, set_up)
    misled_by = () if set_up and SET_UP in expected.causes else _misled_by(expected, findings)
    claimed = any(finding.severity != "info" for finding in findings)
    return Judgement(
        expected=expected,
        first=first,
        set_up=set_up,
        right=right,
        among_three=right or any(finding.rule in expected.causes for finding in findings[:3]),
        misled_by=misled_by,
        silent=not right and not misled_by and (not claimed or (first is not None and first.rule == GENERIC)),
    )


def _is_right(expected: Expected, findings: Sequence[Told], set_up: bool) -> bool:
    if findings and findings[0].rule in expected.causes:
        return True
    if not expected.causes:
        return all(finding.severity == "info" for finding in findings)
    quiet = not any(finding.alarms for finding in findings)
    return (NOTHING in expected.causes and quiet) or (SET_UP in expected.causes and (set_up or quiet))


def _misled_by(expected: Expected, findings: Sequence[Told]) -> tuple[str, ...]:
    """Return the rules that mislead. A kernel that is told to only make data sends nobody to it, whatever is found."""
    return tuple(finding.rule for finding in _to_the_reader(findings) if finding.rule in expected.misleads)


def _to_the_reader(findings: Sequence[Told]) -> Iterator[Told]:
    """Yield what sends a reader somewhere: the first finding, and every one that asks for a fix.

    That a defect costs nothing sends nobody anywhere; that a kernel is at a roof sends the reader away.
    """
    for place, finding in enumerate(findings):
        if finding.alarms or (place == 0 and (finding.severity != "info" or _is_limit(finding))):
            yield finding


def _is_limit(finding: Told) -> bool:
    rule = rule_named(finding.rule)
    return rule is not None and rule.kind == "limit"
