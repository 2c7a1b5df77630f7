"""The definition of a rule: a check of one kernel, its thresholds, and the bound of its gain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from gpuprof.diagnose.bounds import Saving
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import MEMORY_STALLS, SHARED_STALLS
from gpuprof.diagnose.thresholds import HIGH, LOW, MEDIUM, Threshold
from gpuprof.model.field_types import Confidence, GainKind, Severity
from gpuprof.model.findings import MAIN, Amount, CaseName, Cases, Label
from gpuprof.model.session import Evidence, Finding, Location


def amounts_of(unit: str = "fraction", /, **values: float | None) -> tuple[Amount, ...]:
    """Return numbers of one unit by their names in the wording, without unknown ones."""
    return tuple(Amount(name, float(value), unit) for name, value in values.items() if value is not None)


def labels_of(**texts: tuple[str, ...]) -> tuple[Label, ...]:
    """Return texts by their names in the wording, without empty ones."""
    return tuple(Label(name, those) for name, those in texts.items() if those)


Findings = Iterator[Finding]
"""Findings of a rule in a kernel."""
Kind = Literal["defect", "limit", "symptom"]


class TreePlace(Struct, frozen=True):
    """The node of a finding in the explanation of a kernel.

    It is the largest of these stall reasons that is shown, else another node: "kernel", "unit" (the
    busiest), "issue" (issue slots) or "warps".
    """

    reasons: tuple[str, ...]
    otherwise: str


AT_MEMORY = TreePlace((*MEMORY_STALLS, "membar"), "unit")
AT_SHARED = TreePlace(SHARED_STALLS, "unit")
AT_MATH = TreePlace(("math_pipe_throttle",), "unit")
AT_KERNEL = TreePlace((), "kernel")
AT_WARPS = TreePlace((), "warps")


@dataclass(frozen=True, slots=True)
class Rule:
    """One diagnosis; its wording file has its sentences and its reference.

    kind: a `defect` to fix, a `limit` that the kernel reaches, or a `symptom`: waits of its warps.
    check: yield its findings in a kernel.
    metrics: the metrics that it reads beside the quantities of the model, as `ncu --metrics` takes
    them.
    by_times: it reads only names, shapes and times, and so also judges timelines.
    of_timelines: it also judges timelines, with less data than from counters.
    of_run: it is about the run on a timeline, which no kernel alone can show.
    of_launches: it compares launches, or reads their order, which none alone can show.
    of_libraries: it reads names that only kernels of libraries have.
    place: the node of the explanation of a kernel that its finding belongs to.
    invalidates: the other results that its finding makes invalid: those on the kernel's `code`, but
    not on its launch alone, or those on its `time`, and so all others.
    survives_code_change: whether its finding stays for a kernel even if the code changes.
    """

    id: str
    kind: Kind = field(default="defect", kw_only=True)
    thresholds: tuple[Threshold, ...] = ()
    check: Callable[[KernelFacts], Findings] = field(kw_only=True)
    metrics: tuple[str, ...] = ()
    by_times: bool = False
    of_timelines: bool = False
    place: TreePlace = field(kw_only=True)
    of_run: bool = False
    invalidates: Literal["", "code", "time"] = ""
    survives_code_change: Callable[[KernelFacts], bool] = lambda _: False
    of_launches: bool = False
    of_libraries: bool = False


def finding(
    facts: KernelFacts,
    cases: Cases = Cases(),  # noqa: B008
    *,
    confidence: Confidence,
    evidence: Iterable[Evidence],
    amounts: Iterable[Amount] = (),
    labels: Iterable[Label] = (),
    subject: str | None = None,
    place: Location | None = None,
    saving: Saving | None = None,
    gain_of_run: float | None = None,
    severity: Severity | None = None,
    is_fact: bool = False,
    everywhere: bool = False,
) -> Finding:
    """Return a finding of a rule in a kernel; its id and the name of its rule are added later.

    `cases` are sentences of the rule's wording, with `amounts` and `labels` for their placeholders.
    `saving` is the part of the kernel's time that the change saves; None if it is not known.
    `gain_of_run` is set instead if the change saves time of the run but not of a kernel. `is_fact`
    marks a fact that needs no change, such as a kernel near its roof. `severity` is set if
    something else than the gain decides it. `everywhere` marks a finding that is spread over the
    run and has no kernel as its place.
    """
    if is_fact:
        severity = "info"
    known = saving or Saving(0.0)
    gain = None
    kind: GainKind | None = "bound"
    if saving is not None:
        gain = saving.fraction
        gain_of_run = gain * facts.run_share if facts.run_share is not None else None
    elif gain_of_run is None:
        kind = None
    if known.assumes:
        kind = "conditional"
    return Finding(
        rule="",
        severity=severity or graded(gain_of_run if gain is None else gain, confidence),
        confidence=confidence,
        subject=subject,
        cases=cases,
        amounts=tuple(amounts),
        labels=tuple(labels),
        evidence=tuple(evidence),
        place=place,
        gain_kernel=gain,
        gain_total=gain_of_run,
        gain_kind=kind,
        assumes=known.assumes,
        remains=known.remains,
        everywhere=everywhere,
    )


def certainty(facts: KernelFacts, confidence: Confidence) -> Confidence:
    """Return "guess" instead if neither a busy unit nor stalls show what a counted waste costs."""
    return "guess" if facts.busiest_need is None and not facts.stalls else confidence


def cases_of(change: CaseName, headline: tuple[CaseName, ...] = MAIN, why: tuple[CaseName, ...] = MAIN) -> Cases:
    """Return these cases, with the same one for the action and the advice."""
    return Cases(headline=headline, why=why, action=(change,), advice=(change,))


def cases_named(name: str) -> Cases:
    """Return the case of this name in each section."""
    return cases_of(name, (name,), (name,))


def graded(gain: float | None, confidence: Confidence) -> Severity:
    """Return the severity of a gain: "info" if it is no more than noise or not known."""
    if gain is None or gain < LOW:
        return "info"
    if gain < MEDIUM or confidence == "guess":
        return "low"
    if gain < HIGH:
        return "medium"
    return "high"


CONFLICT_SHARE = "conflict-share"
"""The role of evidence of bank conflicts: their share of the wavefronts."""
_MANY = 1e6
"""Counts from here on are written with a prefix."""


def counts_case(total: float) -> CaseName:
    """Return the case of a headline for counts: "120 of 2 000" or "28.4 M of 31.9 M"."""
    return "shared/counts" if total < _MANY else "shared/large-counts"


SHORT_KERNEL = "short-kernel"
