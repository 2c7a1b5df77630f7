"""A part of L2 limits the kernel."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import MEMORY
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
from gpuprof.model.session import Evidence, Finding

FABRIC_FULL = percent("full-fabric", 80.0)


def _l2(facts: KernelFacts) -> Findings:
    """Report the part of L2 that limits; the headline has bytes only for parts that carry them."""
    fabric, fraction = _full_fabric(facts), facts.needs.get("l2")
    if fabric is not None:
        metric, full = fabric
        yield _l2_finding(facts, "fabric", full, (FABRIC_FULL.evidence(100 * full, "fabric-busy", metric=metric),))
        return
    if fraction is None or not BUSY.is_reached(fraction):
        return
    if is_busiest_level(facts, "l2") is not False and not is_sm_ahead(facts, fraction):
        yield _l2_finding(facts, _busiest_part(facts, fraction), fraction, level_evidence(facts, "l2"))


_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"

_PARTS = {
    "lts__t_sectors": "data",
    "lts__d_sectors": "data",
    "lts__lts2xbar_cycles_active": "crossbar-to-sms",
    "lts__xbar2lts_cycles_active": "crossbar-from-sms",
    "lts__t_tag_requests": "tag-lookups",
    "lts__d_atomic_input_cycles_active": "atomic-unit",
}
"""The parts of L2; the busiest one limits.

NVIDIA's descriptions of the metrics (`ncu --query-metrics`) define the counts. In recorded launches
on V100, A100, A40 and H100 the crossbar from the SMs is busy for a cycle or less per load request,
for one cycle per sector that a store fills, and for two per sector that it fills in part. The
crossbar to the SMs carries one sector per cycle and slice, on A100 and H100 two.
"""

_CARRY_ALL_BYTES = ("data", "crossbar-to-sms")

_RELIEVED_BY_BYTES = (None, "fabric", *_CARRY_ALL_BYTES)


def _busiest_part(facts: KernelFacts, fraction: float) -> str | None:
    """Return the busiest part of L2; None if no collected part is as busy as L2."""
    known = {name: facts.number(f"{name}{_ELAPSED}") or 0.0 for name in _PARTS}
    name = max(known, key=lambda part: known[part])
    return _PARTS[name] if known[name] >= AS_BUSY * 100 * fraction else None


def _full_fabric(facts: KernelFacts) -> tuple[str, float] | None:
    """Return the metric and utilization of the fabric between the halves of L2.

    None if it is not well used, or another part of memory is as busy.
    """
    for link in facts.arch.counters.get("fabric.l2", ()):
        for name, factor in link.terms:
            busy = facts.number(name)
            if busy is None:
                continue
            fabric = factor * busy
            is_busiest = all(facts.need(level) < AS_BUSY * fabric for level in MEMORY)
            is_limit = is_busiest and FABRIC_FULL.is_reached(fabric) and not is_sm_ahead(facts, fabric)
            return (name, fabric) if is_limit else None
    return None


def _l2_finding(facts: KernelFacts, part: str | None, fraction: float, evidence: tuple[Evidence, ...]) -> Finding:
    rate, subject, headline = None, "l2", "main"
    why: tuple[str, ...] = MAIN
    if part is not None:
        why = ("part", part)
    if part in _CARRY_ALL_BYTES:
        rate = facts.bytes_per_s_of("l2")
        headline = "main" if rate is None else "counted"
    elif part is not None:
        subject, headline = f"l2-{part}", part
    change = _change_of_l2(facts, part)
    # Bytes without reuse also come from DRAM.
    levels = () if change == "once" else ("dram",)
    return finding(
        facts,
        Cases(headline=(headline,), why=why, action=(change,), advice=_L2_ADVICE[change]),
        amounts=(*amounts_of(busy=fraction), *amounts_of("B/s", rate=rate)),
        subject=subject,
        confidence=confidence_of_level(facts, "l2"),
        saving=bound_of_reuse(facts, fraction, *levels),
        evidence=evidence,
        place=facts.place_of_stall("long_scoreboard", "lg_throttle"),
    )


_L2_ADVICE = {
    "main": ("main", "on-chip"),
    "once": ("once", "dram-bandwidth/fewer-bytes"),
    "unknown": ("if-read-again", "on-chip", "unknown"),
    "requests": ("requests",),
}


def _change_of_l2(facts: KernelFacts, part: str | None) -> str:
    """Return the change that helps: fewer requests, else by whether L2 reuses most bytes."""
    if part not in _RELIEVED_BY_BYTES:
        return "requests"
    l2, dram = facts.bytes_of("l2"), facts.bytes_of("dram")
    if l2 is None or dram is None:
        return "unknown"
    return "main" if l2 > 2 * dram else "once"


RULE = Rule(
    "l2-bandwidth",
    kind="limit",
    thresholds=(BUSY, BALANCED, FABRIC_FULL),
    check=_l2,
    place=AT_MEMORY,
)
