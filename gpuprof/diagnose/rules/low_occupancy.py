"""A resource of the SM limits the resident warps."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.bounds import PER_WARP, bound_of_wait
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import FULL_OF
from gpuprof.diagnose.facts.traffic import LOCAL_SECTORS
from gpuprof.diagnose.facts.waits import LATENCIES
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import COVERED, FULL, QUEUED, STARVED_ISSUE, TAKEN, USED_DRAM, WELL_USED, context
from gpuprof.model.findings import Cases


def _occupancy(facts: KernelFacts) -> Findings:
    kernel, theoretical, limiters = facts.kernel, facts.occupancy.theoretical, facts.occupancy.limiters
    if theoretical is None or theoretical >= FULL_OF or not limiters:
        return
    helps = _more_warps_help(facts)
    waits = facts.stall_at_most(*LATENCIES)
    why, busiest = "not-shown", None
    if facts.is_under_a_wave:
        why, waits = "few-blocks", 0.0
    elif facts.queues_at_dram:
        why, waits = "queue", 0.0
    elif helps:
        why = "latencies" if facts.stalls else "few-eligible"
    elif (facts.busiest or 0.0) >= WELL_USED:
        why, busiest = "unit-full", facts.busiest
    missing = bound_of_wait(facts, min(1.0 - theoretical, waits))
    cases = _changes(facts, limiters, why)
    if why in _NO_CHANGE:
        cases = Cases(why=(why,), action=(why,), advice=(why,))
    yield finding(
        facts,
        cases,
        amounts=amounts_of(theoretical=theoretical, busiest=busiest),
        labels=labels_of(limiters=limiters),
        confidence="inferred" if helps else "guess",
        saving=replace(missing, assumes=(PER_WARP,)),
        is_fact=not helps,
        evidence=(
            *facts.theoretical_evidence(FULL.value),
            *context("registers", kernel.registers_per_thread, "register", metric="launch__registers_per_thread"),
            *context(
                "shared-memory", kernel.shared_memory_per_block or None, "B", metric="launch__shared_mem_per_block"
            ),
            *facts.issue_evidence(),
        ),
    )


_NO_CHANGE = ("few-blocks", "queue", "unit-full")
"""Reasons for which more warps hardly help."""


def _changes(facts: KernelFacts, limiters: tuple[str, ...], why: str) -> Cases:
    """Return the cases of what raises occupancy; no cap on registers if values are spilled."""
    changes = [limiter.replace(" ", "-") for limiter in limiters]
    if "registers" in changes and any(map(facts.number, LOCAL_SECTORS)):
        changes[changes.index("registers")] = "registers-spilled"
    action = ("main", changes[0])
    if len(changes) > 1:
        changes.append("all")
    return Cases(why=(why,), action=action, advice=(*changes, "in-flight"))


def _more_warps_help(facts: KernelFacts) -> bool:
    """Return whether more warps would hide latencies, and all warps that fit are there."""
    if facts.is_under_a_wave or not facts.has_room or facts.queues_at_dram:
        return False
    return facts.is_taken and facts.others_cover and (bool(facts.stalls) or facts.eligible_warps is not None)


RULE = Rule(
    "low-occupancy",
    thresholds=(FULL, STARVED_ISSUE, COVERED, TAKEN, QUEUED, USED_DRAM),
    check=_occupancy,
    place=AT_WARPS,
)
