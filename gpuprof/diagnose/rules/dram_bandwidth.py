"""DRAM limits the kernel, or is near its ceiling."""

from __future__ import annotations

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import MEMORY
from gpuprof.diagnose.level_limits import ACCESS_UNITS, BALANCED, is_busiest_level, is_sm_ahead, level_evidence
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import BUSY, DOMINANT, NEAR_ROOF, QUEUED
from gpuprof.model.findings import Cases
from gpuprof.model.headline import AS_BUSY


def _dram(facts: KernelFacts) -> Findings:
    """Report DRAM as a fact near its ceiling; below it as a limit, if no other level is busier."""
    fraction = facts.needs.get("dram")
    if fraction is None or not BUSY.is_reached(fraction):
        return
    near, busiest = NEAR_ROOF.is_reached(fraction), is_busiest_level(facts, "dram")
    if not near and (busiest is False or is_sm_ahead(facts, fraction)):
        return
    rate, waited = facts.bytes_per_s_of("dram"), facts.cycles_per_load
    alike = tuple(level for level in ("l1", "l2") if facts.need(level) >= AS_BUSY * fraction)
    waits = facts.stall(*facts.memory_stalls, "barrier", "membar") if facts.stalls else None
    delay = _delay_at_dram(waited, waits)
    headline = ["main" if rate is None else "counted"]
    busy = "alike" if alike else "main"
    gap = "gap-to-reached" if facts.dram_reached < 1.0 else "gap"
    why: tuple[str, ...] = (busy, delay, "same-bytes", gap, "gain-more")
    if near:
        headline.append("near")
        why = ("same-bytes", gap, "in-proportion")
    elif delay == "queue":
        why = (busy, delay, gap, "other-order")
    action, advice = "main", ["fewer-bytes"]
    if not near and delay not in ("queue", "few-waits"):
        action = "in-flight"
        advice = [action, facts.copies_ahead_case, *advice]
    fewer = speedup_bound(facts, dict.fromkeys((*MEMORY, *ACCESS_UNITS), 0.0))
    yield finding(
        facts,
        Cases(headline=tuple(headline), why=why, action=(action,), advice=tuple(advice)),
        amounts=(
            *amounts_of(busy=fraction, reached=facts.dram_reached, waits=waits),
            *amounts_of("B/s", rate=rate),
            *amounts_of("cycle", waited=waited),
        ),
        labels=labels_of(alike=alike),
        subject="dram",
        confidence="measured" if near or busiest else "inferred",
        saving=fewer.if_held(speedup_bound(facts, {}).fraction, "same-bytes"),
        evidence=(
            *level_evidence(facts, "dram"),
            *((QUEUED.evidence(waited),) if waited is not None else ()),
        ),
        place=facts.place_of_stall("long_scoreboard", "lg_throttle"),
        is_fact=near,
    )


def _delay_at_dram(waited: float | None, waits: float | None) -> str:
    """Return why DRAM is not fuller: the requests queue, or there are too few of them; without
    stalls it is unknown.

    If warps spend a small share of their time (`waits`) on memory and at barriers, other work
    delays the requests.
    """
    if waited is not None and waited >= QUEUED.value:
        return "queue"
    if waits is not None and not DOMINANT.is_reached(waits):
        return "few-waits"
    return "perhaps-few-in-flight" if waited is None else "few-in-flight"


RULE = Rule(
    "dram-bandwidth",
    kind="limit",
    thresholds=(BUSY, NEAR_ROOF, BALANCED, QUEUED),
    check=_dram,
    place=AT_MEMORY,
)
