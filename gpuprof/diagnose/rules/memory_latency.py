"""Warps wait for global memory while issue slots are idle."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of
from gpuprof.diagnose.thresholds import DOMINANT
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, LATENCY_BOUND, SHOWN, stall_case, waiting
from gpuprof.model.findings import Cases


def _memory_latency(facts: KernelFacts) -> Findings:
    """Report waits for all reasons together; as a fact if a memory unit is so busy that bandwidth
    explains them."""
    felt = [reason for reason in facts.memory_stalls if facts.stall(reason) >= SHOWN]
    if not felt:
        return
    reasons = tuple(sorted(felt, key=facts.stall, reverse=True))
    main = reasons[0]
    busy = max(facts.memory_utilisation or 0.0, facts.need("l1"))
    is_full = LATENCY_BOUND.is_reached(busy)
    queues = main == "long_scoreboard" and facts.queues_at_dram
    level, why = "main", "room"
    if is_full:
        why = "unit-busy"
    elif facts.memory_busy is None:
        # A level that was not collected can be the busy one.
        level = why = "level-unknown"
    elif queues:
        why = "queue"
    headline = [level]
    if len(reasons) == 1:
        headline.append(stall_case(main))
    advice = [stall_case(main)]
    if queues or (is_full and main in ("long_scoreboard", "drain")):
        # More accesses in flight would only wait for the unit or in the queue.
        advice = ["fewer-bytes", "reuse"]
    elif main == "long_scoreboard":
        advice += (facts.copies_ahead_case, "reuse")
    yield from waiting(
        facts,
        reasons,
        DOMINANT,
        Cases(headline=tuple(headline), why=(why,), action=(advice[0],), advice=tuple(advice)),
        amounts=amounts_of(busy=busy if is_full else None)
        + amounts_of("cycle", waited=facts.cycles_per_load if why == "queue" else None),
        is_fact=is_full,
        evidence=facts.busiest_evidence("busiest-memory-unit", None, "sm"),
    )


RULE = Rule(
    "memory-latency",
    kind="symptom",
    thresholds=(DOMINANT, ISSUES_OFTEN, LATENCY_BOUND),
    check=_memory_latency,
    place=AT_MEMORY,
)
