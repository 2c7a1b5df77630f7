"""Findings of the rules on waits of warps."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.bounds import bound_of_wait
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import Findings, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import NOTABLE, Threshold, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, Cases
from gpuprof.model.session import Evidence

ISSUES_OFTEN = percent("issue-slots", 80.0)

LATENCY_BOUND = percent("busiest-unit", 60.0)

START_UP = Threshold("first-misses", 3e-6, "s")

SHOWN = 0.05
"""Smaller shares of stalls are not shown beside a larger one."""


def stall_case(reason: str) -> str:
    """Return the case of the wording for a stall reason."""
    return reason.replace("_", "-")


def waiting(
    facts: KernelFacts,
    reasons: tuple[str, ...],
    threshold: Threshold,
    cases: Cases,
    *,
    amounts: tuple[Amount, ...] = (),
    confidence: Confidence = "inferred",
    is_fact: bool = False,
    evidence: tuple[Evidence, ...] = (),
) -> Findings:
    """Report that warps wait for these reasons often enough while issue slots are idle; as a fact if
    few warps are enough by design."""
    share = facts.stall(*reasons)
    if not facts.issues_rarely or not threshold.is_reached(share):
        return
    if facts.needs_few_warps:
        cases = replace(cases, why=(*cases.why, "shared/few-warps"))
        is_fact = True
    elif facts.issue_at_most is None and not facts.stall("selected"):
        cases = replace(cases, why=(*cases.why, "shared/slots-unknown"))
        confidence = "guess"
    shown = tuple(reason for reason in reasons if facts.stall(reason) > 0)
    yield finding(
        facts,
        cases,
        amounts=amounts_of(share=share) + amounts,
        labels=labels_of(reasons=shown),
        confidence=confidence,
        saving=bound_of_wait(facts, share),
        evidence=facts.stall_evidence(*shown, threshold=threshold.value)
        + facts.issue_evidence(ISSUES_OFTEN.value)
        + evidence,
        place=facts.code.place_of_stall(*reasons),
        is_fact=is_fact,
    )


def misses(facts: KernelFacts, reason: str, *others: str) -> Findings:
    """Report waits for instructions or constants; as a fact if the first misses of a launch can explain them.

    The first wave of warps waits for this share of the time of all warps. That is a few misses of each
    warp, if it is short enough.
    """
    cases, duration = Cases(), facts.kernel.duration_s
    resident = min(1.0, facts.resident_share / min(1.0, facts.waves)) if facts.waves else 1.0
    is_short = duration is not None and facts.stall(reason) * duration * resident <= START_UP.value
    is_start_up = is_short and not NOTABLE.is_reached(facts.stall(*others))
    if is_start_up:
        cases = cases_of("shared/first-misses", why=("main", "shared/first-misses"))
    yield from waiting(facts, (reason, *others), NOTABLE, cases, is_fact=is_start_up)
