"""What a rule is: a question to one kernel, the thresholds with their reasons, and how its gain is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpuprof.diagnose.case import MEMORY_STALLS, SHARED_STALLS, Case
from gpuprof.model.field_types import Confidence, Severity
from gpuprof.model.session import Evidence, Finding, Location

HIGH, MEDIUM, LOW = 0.2, 0.1, 0.03
"""Least gain for the kernel of a severity: a fifth, a tenth, and what repeated runs can still tell from noise."""

WEIGHTS = {"measured": 1.0, "inferred": 0.6, "guess": 0.3}
ABOUT = {"defect": 1.0, "limit": 0.8, "symptom": 0.8}
"""How much of an upper bound a finding is taken for when findings are put in order: what can be repaired leads."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a rule compares with, its unit, and why it is that number."""

    name: str
    value: float
    unit: str
    reason: str


def percent(name: str, value: float, reason: str) -> Threshold:
    """Return a threshold of a share."""
    return Threshold(name, value, "%", reason=reason)


@dataclass(frozen=True, slots=True)
class TreePlace:
    """Where a finding hangs in the explanation of a kernel: at the largest of these stall reasons that is shown, else
    at another node: "kernel", "unit" (the busiest), "issue" (issue slots) or "warps".
    """

    reasons: tuple[str, ...]
    otherwise: str


AT_MEMORY = TreePlace((*MEMORY_STALLS, "membar"), "unit")
AT_SHARED = TreePlace(SHARED_STALLS, "unit")
AT_MATH = TreePlace(("math_pipe_throttle",), "unit")
AT_KERNEL = TreePlace((), "kernel")


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What a rule says of a kernel, before its severity and its share of the run are known.

    `gain` is the fraction of the kernel's time, an upper bound; None where nothing bounds it. `gain_of_run` is set
    instead where the repair saves time of the run but not of a kernel. `settled` marks what is
    true but nothing to repair, such as a kernel near its roof.
    """

    headline: str
    why: str
    advice: str
    confidence: Confidence
    gain: float | None
    evidence: tuple[Evidence, ...]
    location: Location | None = None
    settled: bool = False
    gain_of_run: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One diagnosis. The texts are what the reference prints of it; `check` gives its verdicts on a kernel.

    `by_times` says that names, shapes and times are enough for it, so that it also judges timelines.
    `of_run` says that it speaks of the run on a timeline, so that no kernel alone can show it.
    `metrics` are what it reads beside the quantities of the model, as `ncu --metrics` takes them.
    `place` says where its finding hangs in the explanation of a kernel.
    `about` says what kind of statement it is: a `defect` to repair, a `limit` that the kernel runs into, or a
    `symptom`, which is only worth telling where no other rule explains it.
    """

    id: str
    title: str
    about: str
    looks_at: str
    thresholds: tuple[Threshold, ...]
    gain: str
    silent: str
    check: Callable[[Case], Iterator[RuleVerdict]]
    metrics: tuple[str, ...] = ()
    by_times: bool = False
    place: TreePlace = field(kw_only=True)
    of_run: bool = False


def finding_of(rule: Rule, verdict: RuleVerdict, time_share: float | None) -> Finding:
    """Give a verdict its severity and its share of the run."""
    gain, of_run = _bounded(verdict.gain), _bounded(verdict.gain_of_run)
    if of_run is None and gain is not None and time_share is not None:
        of_run = gain * time_share
    return Finding(
        rule=rule.id,
        severity=_severity(gain if gain is not None else _bounded(verdict.gain_of_run), verdict, rule.about),
        confidence=verdict.confidence,
        headline=verdict.headline,
        why=verdict.why,
        evidence=verdict.evidence,
        advice=verdict.advice,
        location=verdict.location,
        gain_kernel=gain,
        gain_total=of_run,
    )


def _bounded(gain: float | None) -> float | None:
    return min(1.0, max(0.0, gain)) if gain is not None else None


def _severity(gain: float | None, verdict: RuleVerdict, about: str) -> Severity:
    """A guess is low at most, and only a defect is high: a limit or a symptom names nothing to repair."""
    if gain is None or verdict.settled or gain < LOW:
        return "info"
    if gain < MEDIUM or verdict.confidence == "guess":
        return "low"
    return "high" if gain >= HIGH and about == "defect" else "medium"
