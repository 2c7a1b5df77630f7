"""Warps wait for global memory while issue slots are idle."""

from __future__ import annotations

from gpuprof.diagnose.bounds import bound_of_wait
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import DOMINANT, WELL_USED
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, LATENCY_BOUND, SHOWN, stall_case
from gpuprof.model.findings import Cases


def _memory_latency(facts: KernelFacts) -> Findings:
    reason = max(facts.memory_stalls, key=facts.stall)
    if not facts.issues_rarely or not DOMINANT.is_reached(facts.stall(reason)):
        return
    busy = max(facts.memory_utilisation or 0.0, facts.l1_busy or 0.0)
    is_full = LATENCY_BOUND.is_reached(busy)
    is_load = reason == "long_scoreboard"
    queues = is_load and facts.queues_at_dram
    headline, why = "main", "too-few-requests" if is_load else "room"
    if not is_full and facts.memory_busy is None:
        # A level that was not collected can be the busy one.
        headline = why = "level-unknown"
    if is_full:
        why = "unit-busy"
    elif queues:
        why = "queue"
    reasons = [why]
    l1_hits, l2_hits = facts.hit_rates.get("l1"), facts.hit_rates.get("l2")
    if l1_hits is not None and l2_hits is not None:
        reasons = ["hit-rates", why]
    advice = [stall_case(reason)]
    if queues or (reason in ("long_scoreboard", "drain") and busy >= WELL_USED):
        # More accesses in flight would only wait in the queue.
        advice = ["fewer-bytes", "reuse"]
    elif is_load:
        advice += (facts.copies_ahead_case, "reuse")
    yield finding(
        facts,
        Cases(
            headline=(headline, stall_case(reason)),
            why=tuple(reasons),
            action=(advice[0],),
            advice=tuple(advice),
        ),
        amounts=(
            *amounts_of(share=facts.stall(reason), busy=busy if is_full else None, l1_hits=l1_hits, l2_hits=l2_hits),
            *amounts_of("cycle", waited=facts.cycles_per_load if why == "queue" else None),
        ),
        labels=labels_of(reasons=(reason,)),
        confidence="inferred",
        saving=bound_of_wait(facts, facts.stall(*facts.memory_stalls)),
        evidence=(
            *facts.stall_evidence(
                *(name for name in facts.memory_stalls if facts.stall(name) >= SHOWN), threshold=DOMINANT.value
            ),
            *facts.issue_evidence(ISSUES_OFTEN.value),
            *(item for item in facts.metrics_as(_HIT_RATES, "%") if item.value < 100.5),
            *facts.busiest_evidence("busiest-memory-unit", None, "sm"),
        ),
        place=facts.place_of_stall(reason),
        is_fact=is_full,
    )


_HIT_RATES = {"l1tex__t_sector_hit_rate.pct": "l1-hit-rate", "lts__t_sector_hit_rate.pct": "l2-hit-rate"}


RULE = Rule(
    "memory-latency",
    kind="symptom",
    thresholds=(DOMINANT, ISSUES_OFTEN, LATENCY_BOUND),
    check=_memory_latency,
    place=AT_MEMORY,
)
