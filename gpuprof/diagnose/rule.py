"""What a rule is: a question to one kernel, the thresholds with their reasons, and how its gain is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from gpuprof.diagnose.case import MEMORY_STALLS, SHARED_STALLS, Case
from gpuprof.diagnose.needs import Saving
from gpuprof.model.field_types import Confidence, Severity
from gpuprof.model.session import Evidence, Finding, Location

HIGH, MEDIUM, LOW = 0.2, 0.1, 0.03
"""Least gain for the kernel of a severity: a fifth, a tenth, and what repeated runs can still tell from noise."""


class Threshold(Struct, frozen=True):
    """A number that a rule compares with, its unit, and why it is that number."""

    name: str
    value: float
    unit: str
    reason: str


def percent(name: str, value: float, reason: str) -> Threshold:
    """Return a threshold of a share."""
    return Threshold(name, value, "%", reason=reason)


class TreePlace(Struct, frozen=True):
    """Where a finding hangs in the explanation of a kernel: at the largest of these stall reasons that is shown, else
    at another node: "kernel", "unit" (the busiest), "issue" (issue slots) or "warps".
    """

    reasons: tuple[str, ...]
    otherwise: str


AT_MEMORY = TreePlace((*MEMORY_STALLS, "membar"), "unit")
AT_SHARED = TreePlace(SHARED_STALLS, "unit")
AT_MATH = TreePlace(("math_pipe_throttle",), "unit")
AT_KERNEL = TreePlace((), "kernel")


class RuleVerdict(Struct, frozen=True):
    """What a rule says of a kernel, before its severity and its share of the run are known.

    `action` is what to change, in a short sentence; `advice` is how. `saving` is what that saves of the kernel's time;
    None where nothing tells. `gain_of_run` is set instead where the repair saves time of the run but not of a kernel.
    `severity` is set where no gain tells it.
    `everywhere` marks what is spread over the run, so that no kernel is its place.
    `settled` marks what is true but nothing to repair, such as a kernel near its roof.
    """

    headline: str
    why: str
    advice: str
    confidence: Confidence
    saving: Saving | None
    evidence: tuple[Evidence, ...]
    action: str = ""
    location: Location | None = None
    settled: bool = False
    gain_of_run: float | None = None
    everywhere: bool = False
    severity: Severity | None = None


class Cause(Struct, frozen=True):
    """A rule whose finding explains another one, `when` that holds of the kernel and `what` of the finding.

    `most` tells of a finding that it is most of the other, however much that promises.
    """

    rule: str
    when: Callable[[Case], bool] = lambda _: True
    what: Callable[[Finding], bool] = lambda _: True
    most: Callable[[Finding], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class Rule:
    """One diagnosis. The texts are what the reference prints of it; `check` gives its verdicts on a kernel.

    `gain` is the formula of what a repair saves, with its reason.
    `by_times` says that it reads names, shapes and times alone, so that it also judges timelines; `of_timelines`, that
    it does that, too, with less than it reads of counters.
    `of_run` says that it speaks of the run on a timeline, so that no kernel alone can show it; `of_launches`, that it
    compares launches of a kernel, so that none alone can.
    `metrics` are what it reads beside the quantities of the model, as `ncu --metrics` takes them.
    `place` says where its finding hangs in the explanation of a kernel.
    `about` says what kind of statement it is: a `defect` to repair, a `limit` that the kernel runs into, or a
    `symptom`: what its warps wait for. `causes` are the rules whose findings explain this one's.
    `voids` says what else a kernel shows goes with this finding: what its `code` does, but not what its launch alone
    tells, or its `time`, and with it all else. `outlasts` tells of a kernel that this rule's finding stays even if its
    code is another.
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
    causes: tuple[Cause, ...] = ()
    by_times: bool = False
    of_timelines: bool = False
    place: TreePlace = field(kw_only=True)
    of_run: bool = False
    voids: Literal["", "code", "time"] = ""
    outlasts: Callable[[Case], bool] = lambda _: False
    of_launches: bool = False


def finding_of(rule: Rule, verdict: RuleVerdict, run_share: float | None) -> Finding:
    """Give a verdict its severity and its share of the run; its id comes later."""
    saving = verdict.saving
    gain = saving.fraction if saving is not None else None
    of_run = min(1.0, max(0.0, verdict.gain_of_run)) if verdict.gain_of_run is not None else None
    severity = verdict.severity or _severity(gain if gain is not None else of_run, verdict)
    if of_run is None and gain is not None and run_share is not None:
        of_run = gain * run_share
    return Finding(
        rule=rule.id,
        severity=severity,
        confidence=verdict.confidence,
        headline=_shared(verdict.headline),
        why=_shared(verdict.why),
        evidence=verdict.evidence,
        action=_shared(verdict.action or verdict.advice.partition(". ")[0].rstrip(".")),
        advice=_shared(verdict.advice),
        location=verdict.location,
        gain_kernel=gain,
        gain_total=of_run,
        gain_kind=saving.kind if saving is not None else "bound" if of_run is not None else None,
        held=saving.held if saving is not None else None,
        remains=saving.remains if saving is not None else (),
        everywhere=verdict.everywhere,
    )


@lru_cache(maxsize=4096)
def _shared(text: str) -> str:
    """Return a text as the first finding has it that says the same: thousands of launches keep it once."""
    return text


def _severity(gain: float | None, verdict: RuleVerdict) -> Severity:
    """A guess is low at most."""
    if gain is None or verdict.settled or gain < LOW:
        return "info"
    if gain < MEDIUM or verdict.confidence == "guess":
        return "low"
    return "high" if gain >= HIGH else "medium"
