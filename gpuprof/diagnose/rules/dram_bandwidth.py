"""DRAM limits the kernel, or is near its ceiling."""

from __future__ import annotations

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import MEMORY
from gpuprof.diagnose.level_limits import ACCESS_UNITS, BALANCED, is_busiest_level, is_sm_ahead, level_evidence
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import BUSY, DOMINANT, NEAR_ROOF, QUEUED
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases
from gpuprof.model.headline import AS_BUSY


def _dram(facts: KernelFacts) -> Findings:
    """Report DRAM as a fact near the most that kernels reach of its peak; below that as a limit, if
    no other level is busier.
    """
    fraction = facts.needs.get("dram")
    if fraction is None or not BUSY.is_reached(fraction):
        return
    near = NEAR_ROOF.is_reached(fraction / facts.dram_reached)
    if not near and (is_busiest_level(facts, "dram") is False or is_sm_ahead(facts, fraction)):
        return
    rate, waited = facts.bytes_per_s_of("dram"), facts.cycles_per_load
    delay = _delay(facts)
    evidence = level_evidence(facts, "dram")
    if waited is not None:
        evidence = (*evidence, QUEUED.evidence(waited))
    yield finding(
        facts,
        _cases(facts, near, delay),
        amounts=(
            *amounts_of(busy=fraction, reached=facts.dram_reached, waits=facts.waits_for_memory),
            *amounts_of("B/s", rate=rate),
            *amounts_of("cycle", waited=waited),
        ),
        labels=labels_of(alike=_alike(facts)),
        subject="dram",
        confidence=_confidence(facts, near, delay),
        saving=speedup_bound(facts, dict.fromkeys((*MEMORY, *ACCESS_UNITS), 0.0)).if_held(
            speedup_bound(facts, {}).fraction, "same-bytes"
        ),
        evidence=evidence,
        place=facts.place_of_stall("long_scoreboard", "lg_throttle"),
        is_fact=near,
    )


def _delay(facts: KernelFacts) -> str:
    """Return why DRAM is not fuller: loads queue, other work delays them, or there are too few."""
    waited, waits = facts.cycles_per_load, facts.waits_for_memory
    if waited is not None and waited >= QUEUED.value:
        return "queue"
    if waits is not None and not DOMINANT.is_reached(waits):
        return "few-waits"
    return "few-in-flight"


def _confidence(facts: KernelFacts, near: bool, delay: str) -> Confidence:
    """Return "measured" if DRAM is near its ceiling, or is the busiest level and warps wait for it.

    A lower bound by L2's misses does not measure it. A guess if warps hardly wait for memory.
    """
    if near and "dram" in facts.utilisation:
        return "measured"
    if delay == "few-waits" and not near:
        return "guess"
    waits = DOMINANT.is_reached(facts.waits_for_memory)
    return "measured" if waits and is_busiest_level(facts, "dram") else "inferred"


def _alike(facts: KernelFacts) -> tuple[str, ...]:
    return tuple(level for level in ("l1", "l2") if facts.need(level) >= AS_BUSY * facts.need("dram"))


def _cases(facts: KernelFacts, near: bool, delay: str) -> Cases:
    headline = ["main" if facts.bytes_per_s_of("dram") is None else "counted"]
    gap = "gap-to-reached" if facts.dram_reached < 1.0 else "gap"
    why = ["same-bytes", gap, "gain-more"]
    action = "main"
    advice = ["fewer-bytes"]
    if near:
        headline.append("near")
    else:
        why = ["alike" if _alike(facts) else "main", delay, *why]
        if delay == "queue":
            why[2:] = [gap, "other-order"]
        elif delay == "few-in-flight":
            action = delay
            advice = [action, facts.copies_ahead_case, *advice]
    return Cases(headline=tuple(headline), why=tuple(why), action=(action,), advice=tuple(advice))


RULE = Rule(
    "dram-bandwidth",
    kind="limit",
    thresholds=(BUSY, NEAR_ROOF, BALANCED, QUEUED, DOMINANT),
    check=_dram,
    place=AT_MEMORY,
)
