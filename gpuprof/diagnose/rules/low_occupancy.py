"""A resource of the SM limits the resident warps."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpuprof.diagnose.bounds import PER_WARP, bound_of_wait
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import FULL_OF
from gpuprof.diagnose.facts.traffic import LOCAL_SECTORS
from gpuprof.diagnose.facts.waits import LATENCIES
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import COVERED, FULL, QUEUED, STARVED_ISSUE, TAKEN, USED_DRAM, WELL_USED, context
from gpuprof.model.findings import CaseName, Cases
from gpuprof.model.occupancy import allocated_shared

_CHEAPEST_FIRST = ("carve-out", "block-size", "blocks", "shared-memory", "registers")
"""Changes of the launch come before changes of the code."""
_NO_CHANGE = ("few-warps", "few-blocks", "queue", "unit-full")
"""Reasons for which more warps hardly help."""
_HELPS = ("latencies", "few-eligible", "no-unit-busy")
"""Reasons for which more warps help, or probably do."""


def _occupancy(facts: KernelFacts) -> Findings:
    theoretical, limiters = facts.occupancy.theoretical, facts.occupancy.limiters
    if theoretical is None or theoretical >= FULL_OF or not limiters:
        return
    why = _why(facts)
    waits = 0.0 if why in ("few-warps", "few-blocks", "queue") else facts.stall_at_most(*LATENCIES)
    saving = bound_of_wait(facts, min(1.0 - theoretical, waits))
    shared = allocated_shared(facts.metrics, facts.arch) if facts.kernel.shared_memory_per_block else None
    yield finding(
        facts,
        _changes(facts, why),
        amounts=amounts_of(theoretical=theoretical, busiest=facts.busiest),
        labels=labels_of(limiters=limiters),
        confidence="inferred" if why in ("latencies", "few-eligible") else "guess",
        saving=replace(saving, assumes=(PER_WARP,)),
        is_fact=why not in _HELPS,
        evidence=facts.theoretical_evidence()
        + facts.metric("launch__registers_per_thread", "registers", "register")
        + context("shared-memory", shared, "B")
        + facts.issue_evidence(),
    )


def _why(facts: KernelFacts) -> str:
    """Return the reason for which more warps help or do not."""
    if facts.needs_few_warps:
        return "few-warps"
    if facts.is_under_a_wave:
        return "few-blocks"
    if facts.queues_at_dram:
        return "queue"
    if facts.more_warps_help:
        if facts.stalls:
            return "latencies"
        return "few-eligible" if facts.eligible_warps is not None else "no-unit-busy"
    return "unit-full" if (facts.busiest or 0.0) >= WELL_USED else "not-shown"


def _changes(facts: KernelFacts, why: str) -> Cases:
    """Return the cases of what raises occupancy: nothing that needs more registers if these limit,
    and no cap on them if values are spilled."""
    if why in _NO_CHANGE:
        return cases_of(why, why=(why,))
    advice = changes_of(facts.occupancy.limiters)
    number = len(advice)
    if "registers" not in advice:
        advice.append("in-flight")
    elif any(map(facts.number, LOCAL_SECTORS)):
        advice[-1] = "registers-spilled"
    action = ("main", advice[0])
    if number > 1:
        advice.insert(number, "all")
    return Cases(why=(why,), action=action, advice=tuple(advice))


def changes_of(limiters: Sequence[str]) -> list[CaseName]:
    """Return the advice for each limit of occupancy, the cheapest change first."""
    names = [limiter.replace(" ", "-") for limiter in limiters]
    return [name for name in _CHEAPEST_FIRST if name in names]


RULE = Rule(
    "low-occupancy",
    thresholds=(FULL, STARVED_ISSUE, COVERED, TAKEN, QUEUED, USED_DRAM),
    check=_occupancy,
    place=AT_WARPS,
)
