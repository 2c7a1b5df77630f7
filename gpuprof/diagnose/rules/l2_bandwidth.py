"""A part of L2 limits the kernel."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import MEMORY
from gpuprof.diagnose.level_limits import (
    BALANCED,
    bound_of_reuse,
    confidence_of_level,
    is_busiest_level,
    is_sm_ahead,
    level_evidence,
)
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import BUSY, percent
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.headline import AS_BUSY

FABRIC_FULL = percent("full-fabric", 80.0)

_CARRY_ALL_BYTES = ("data", "crossbar-to-sms")


def _l2(facts: KernelFacts) -> Findings:
    """Report the part of L2 that limits, or the fabric between its halves if no memory level is as busy."""
    fabric = facts.counters_of("fabric.l2")
    of_fabric, fraction = min(1.0, (facts.number(*fabric) or 0.0) / 100), facts.need("l2")
    if FABRIC_FULL.is_reached(of_fabric) and max(map(facts.need, MEMORY)) < AS_BUSY * of_fabric:
        part, fraction = "fabric", of_fabric
        evidence = [FABRIC_FULL.evidence(100 * fraction, "fabric-busy", metric=facts.first_of(fabric))]
    elif BUSY.is_reached(fraction) and is_busiest_level(facts, "l2") is not False:
        part, evidence = _busiest_part(facts, fraction), [*level_evidence(facts, "l2")]
    else:
        return
    if is_sm_ahead(facts, fraction):
        return
    rate = facts.bytes_per_s_of("l2") if part in _CARRY_ALL_BYTES else None
    subject, headline = "l2", "main" if rate is None else "counted"
    if part not in ("", *_CARRY_ALL_BYTES):
        subject, headline = f"l2-{part}", part
    l2, dram = facts.bytes_of("l2"), facts.bytes_of("dram")
    change, levels, advice = "main", ["dram"], []
    if part not in ("", "fabric", *_CARRY_ALL_BYTES):
        change = "requests"
    elif l2 is not None and dram is not None and l2 <= 2 * dram:
        # Bytes without reuse also come from DRAM.
        change, levels, advice = "once", [], ["dram-bandwidth/fewer-bytes"]
    yield finding(
        facts,
        Cases(headline=(headline,), why=("part", part) if part else MAIN, action=(change,), advice=(change, *advice)),
        amounts=amounts_of(busy=fraction) + amounts_of("B/s", rate=rate),
        subject=subject,
        confidence=confidence_of_level(facts, "l2", fraction),
        saving=bound_of_reuse(facts, fraction, *levels),
        evidence=evidence,
        place=facts.code.place_of_stall("long_scoreboard", "lg_throttle"),
    )


def _busiest_part(facts: KernelFacts, fraction: float) -> str:
    """Return the busiest part of L2; empty if no collected part is as busy as L2."""
    part, busy = max(facts.l2_parts.items(), key=lambda item: item[1], default=("", 0.0))
    return part if busy >= AS_BUSY * fraction else ""


RULE = Rule(
    "l2-bandwidth",
    kind="limit",
    thresholds=(BUSY, BALANCED, FABRIC_FULL),
    check=_l2,
    place=AT_MEMORY,
)
