"""DRAM limits the kernel, or is near its ceiling."""

from __future__ import annotations

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import MEMORY
from gpuprof.diagnose.level_limits import ACCESS_UNITS, BALANCED, is_busiest_level, is_sm_ahead, level_evidence
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import BUSY, DOMINANT, NEAR_ROOF, QUEUED, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import MAIN, Cases

WORKING = percent("near-while-working", 90.0)

_MOST = 1.25
"""DRAM also works just before and after the SMs do. If it works for much longer, SMs are idle for another
reason."""


def _dram(facts: KernelFacts) -> Findings:
    """Report DRAM as a fact near the most that kernels reach of its peak, also if only while SMs work.

    Below that it is a limit if no other level is busier.
    """
    fraction, is_busiest = facts.need("dram"), is_busiest_level(facts, "dram")
    if not BUSY.is_reached(fraction):
        return
    reached = facts.least_times["dram"]
    is_limit = is_busiest is not False and not is_sm_ahead(facts, fraction)
    if not is_limit and not NEAR_ROOF.is_reached(reached):
        return
    # The busiest SM works for this share of the time, else an average one with a block.
    working = facts.busiest_share or facts.active_with_block or 1.0
    state, rest = _state(facts, working), speedup_bound(facts).fraction
    waited = facts.cycles_per_load
    evidence = level_evidence(facts, "dram")
    if waited is not None:
        evidence += (QUEUED.evidence(waited),)
    if state == "while-working":
        # An average SM without work could have some, except during the launch.
        rest = min(rest, facts.working_share - reached)
        evidence += (WORKING.evidence(min(100.0, 100 * reached / working)),)
    confidence: Confidence = "inferred"
    if state == "few-waits":
        confidence = "guess"
    elif state in _NEAR or (is_busiest and DOMINANT.is_reached(facts.waits_for_memory)):
        confidence = "measured"
    fewer_bytes = speedup_bound(facts, dict.fromkeys(MEMORY + ACCESS_UNITS, 0.0))
    yield finding(
        facts,
        _cases(facts, state),
        amounts=amounts_of(busy=fraction, reached=facts.dram_reached, waits=facts.waits_for_memory)
        + amounts_of("B/s", rate=facts.bytes_per_s_of("dram"))
        + amounts_of("cycle", waited=waited),
        subject="dram",
        # A lower bound measures nothing.
        confidence=confidence if "dram" in facts.utilisation else "inferred",
        saving=fewer_bytes.if_held(rest, "same-bytes"),
        evidence=evidence,
        place=facts.code.place_of_stall("long_scoreboard", "lg_throttle"),
        is_fact=state in _NEAR,
    )


_NEAR = ("near", "while-working")


def _state(facts: KernelFacts, working: float) -> str:
    """Return whether DRAM is near its ceiling, or why it is not fuller: loads queue, other work delays
    them, or there are too few. Without the waits of warps that is not known.
    """
    busy, waited, waits = facts.least_times["dram"], facts.cycles_per_load, facts.waits_for_memory
    if WORKING.is_reached(busy / working) and busy / working <= _MOST and not WORKING.is_reached(busy):
        return "while-working"
    if NEAR_ROOF.is_reached(busy):
        return "near"
    if (waited or 0.0) >= QUEUED.value:
        return "queue"
    if waits is not None and not DOMINANT.is_reached(waits):
        return "few-waits"
    return "unknown-waits" if waited is None and waits is None else "few-in-flight"


def _cases(facts: KernelFacts, state: str) -> Cases:
    headline = "main" if facts.bytes_per_s_of("dram") is None else "counted"
    advice: tuple[str, ...] = ("fewer-bytes",)
    if state in _NEAR:
        why = "gap" if state == "near" else state
        return Cases(headline=(headline, state), why=(why,), advice=advice)
    gap = "gap-in-queue" if state == "queue" else "gap"
    action = (state,) if state == "few-in-flight" else MAIN
    if state in ("few-in-flight", "unknown-waits"):
        advice = ("few-in-flight", facts.copies_ahead_case, *advice)
    return Cases(headline=(headline,), why=("main", state, gap), action=action, advice=advice)


RULE = Rule(
    "dram-bandwidth",
    kind="limit",
    thresholds=(BUSY, NEAR_ROOF, WORKING, BALANCED, QUEUED, DOMINANT),
    check=_dram,
    place=AT_MEMORY,
)
