"""DRAM limits the kernel, or is near its ceiling."""

from __future__ import annotations

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import MEMORY
from gpuprof.diagnose.level_limits import ACCESS_UNITS, BALANCED, is_busiest_level, is_sm_ahead, level_evidence
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import BUSY, DOMINANT, NEAR_ROOF, QUEUED
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases


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
    state = "near" if near else _delay(facts)
    rate, waited = facts.bytes_per_s_of("dram"), facts.cycles_per_load
    evidence = level_evidence(facts, "dram")
    if waited is not None:
        evidence += (QUEUED.evidence(waited),)
    fewer_bytes = speedup_bound(facts, dict.fromkeys((*MEMORY, *ACCESS_UNITS), 0.0))
    yield finding(
        facts,
        _cases(facts, state),
        amounts=(
            *amounts_of(busy=fraction, reached=facts.dram_reached, waits=facts.waits_for_memory),
            *amounts_of("B/s", rate=rate),
            *amounts_of("cycle", waited=waited),
        ),
        subject="dram",
        confidence=_confidence(facts, state),
        saving=fewer_bytes.if_held(speedup_bound(facts, {}).fraction, "same-bytes"),
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


def _confidence(facts: KernelFacts, state: str) -> Confidence:
    """Return "measured" if DRAM is near its ceiling, or the busiest level and warps wait for it.

    A lower bound by L2's misses does not measure it. If warps hardly wait for memory, it is a guess.
    """
    if "dram" not in facts.utilisation:
        return "inferred"
    if state == "few-waits":
        return "guess"
    is_limit = DOMINANT.is_reached(facts.waits_for_memory) and is_busiest_level(facts, "dram")
    return "measured" if state == "near" or is_limit else "inferred"


def _cases(facts: KernelFacts, state: str) -> Cases:
    headline = "main" if facts.bytes_per_s_of("dram") is None else "counted"
    if state == "near":
        return Cases(headline=(headline, state), why=("gap",), action=("main",), advice=("fewer-bytes",))
    if state == "few-in-flight":
        advice = (state, facts.copies_ahead_case, "fewer-bytes")
        return Cases(headline=(headline,), why=("main", state, "gap"), action=(state,), advice=advice)
    gap = "gap-in-queue" if state == "queue" else "gap"
    return Cases(headline=(headline,), why=("main", state, gap), action=("main",), advice=("fewer-bytes",))


RULE = Rule(
    "dram-bandwidth",
    kind="limit",
    thresholds=(BUSY, NEAR_ROOF, BALANCED, QUEUED, DOMINANT),
    check=_dram,
    place=AT_MEMORY,
)
