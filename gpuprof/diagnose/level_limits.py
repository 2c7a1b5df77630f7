"""Judgements and bounds of the rules on full memory levels."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, saving
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE, LAUNCH, MEMORY, SM, WORK
from gpuprof.diagnose.thresholds import BUSY, NEAR_ROOF, Threshold, context, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.headline import AS_BUSY, TWO_PASSES
from gpuprof.model.session import Evidence

WIDE_PASSES = Threshold("wide-passes", 2.0, "wavefront")

BALANCED = percent("sm-above-memory", 10.0)


def is_busiest_level(facts: KernelFacts, level: str) -> bool | None:
    """Return whether no memory level is busier than this one; None if a level that could be was not
    collected.

    Every byte of DRAM passes the other levels: if one of them is equally busy, DRAM is the limit.
    """
    own = most = facts.need(level)
    if level == "dram":
        most = own / AS_BUSY
    elif facts.need("dram") >= AS_BUSY * own:
        return False
    others = [facts.at_most(other) for other in MEMORY if other != level]
    if any((value or 0.0) > most for value in others):
        return False
    overall = facts.utilisation.get("memory")
    if None in others and (overall is None or own < AS_BUSY * overall):
        return None
    return True


def is_sm_ahead(facts: KernelFacts, fraction: float, points: float = BALANCED.value) -> bool:
    """Return whether the SM is busier than a level with this utilization."""
    return 100 * (facts.need(SM) - fraction) > points


def confidence_of_level(facts: KernelFacts, level: str, fraction: float) -> Confidence:
    """Return "inferred" for the busiest level; "guess" if a level below it is unknown, or the SM and the level
    is not near its ceiling."""
    if SM not in facts.needs and not NEAR_ROOF.is_reached(fraction):
        return "guess"
    is_known = facts.needs.keys() >= {*MEMORY[: MEMORY.index(level)]}
    return "inferred" if is_known or is_busiest_level(facts, level) else "guess"


def bound_of_reuse(facts: KernelFacts, fraction: float, *below: str) -> Saving:
    """Bound the gain of fewer accesses: the arithmetic and the launch remain.

    `fraction` is the utilization of the level: the rest of the time is not its own, and a part of the
    others' work is done in it. The saving is smaller if the levels below move the same bytes and the
    SM does the same beside accesses. The accesses and the SM's work for them go, and so do their
    addresses if only pipes show the other work. A change that keeps values on the chip takes bytes
    from the levels below, too: their needs are no bound.
    """
    gone = {SM, *MEMORY, *ACCESS_UNITS} - {*below}
    work, others = facts.arithmetic_fraction, needs_beside_accesses(facts)
    stays = {unit: need for unit, need in facts.least_times.items() if unit not in gone} | {WORK: work}
    is_known = work or others or stays.keys() - {*MEMORY, LAUNCH, WORK}
    arithmetic = "same-arithmetic" if is_known else "little-arithmetic"
    same_bytes = [f"same-bytes-through-{'-and-'.join(below)}"] if below else []
    reuse = saving({LAUNCH: facts.need(LAUNCH), WORK: work})
    reuse = reuse.or_less(saving(stays), arithmetic, *same_bytes)
    reuse = reuse.or_less(saving(stays | others), "same-other-instructions", *same_bytes)
    return reuse.if_held(fraction * reuse.fraction, *reuse.assumes, "rest-of-its-time-unchanged")


ACCESS_UNITS = (ISSUE, "lsu", "adu", "uniform", "cbu", "alu")
"""Parts of the SM that also work for accesses and their addresses, and do less if there are fewer."""


def needs_beside_accesses(facts: KernelFacts) -> dict[str, float]:
    """Return the needs of the issue slots and of the SM's busiest part beside accesses; empty if
    they are not known.

    An access takes at least one pass of L1, so instructions beyond L1's passes are no accesses. The
    SM's speed of light counts if it is above all units that work for accesses: memory, which is no
    less busy than the pipes that issue accesses, and the pipes of addresses. If issue slots were
    not collected, they may be the SM's busiest part.
    """
    if "l1" not in facts.needs:
        return {}
    accesses = facts.need("l1") * min(1.0, facts.request_rate or 1.0) / facts.arch.limit("sub_partitions")
    needs = {ISSUE: facts.need(ISSUE) - accesses}
    memory, sm = facts.utilisation.get("memory"), facts.need(SM)
    if memory is not None and sm > max(memory, *map(facts.need, ACCESS_UNITS)) + TWO_PASSES:
        needs[SM] = sm if ISSUE in facts.needs else sm - accesses
    return {unit: need for unit, need in needs.items() if need > 0}


def level_evidence(facts: KernelFacts, level: str) -> tuple[Evidence, ...]:
    """Return the utilization and the rate of a level, and the waits for it."""
    return (
        BUSY.evidence(100 * facts.needs[level], "unit-busy", level, metric=facts.light_metric(level)),
        *context("rate", facts.bytes_per_s_of(level), "B/s"),
        *facts.stall_evidence("long_scoreboard"),
    )


def change_of_shared(facts: KernelFacts) -> str:
    """Return the change that fits accesses of shared memory.

    Matrix fragments come from a tile already. Multiply-adds use each value of a larger tile more
    often: a search, a sort or a sum does not.
    """
    if facts.uses_fragments:
        return "shared-bandwidth/fragments"
    counted = facts.fused_and_alone("FFMA", "FADD", "FMUL")
    if counted is not None and counted.all:
        is_product = 2 * counted.fused >= counted.all
    else:
        # The FMA pipe does more than that of comparisons and logic.
        is_product = facts.multiplies or 0.0 < facts.need("alu") < facts.need("fma")
    return "shared-bandwidth/larger-tile" if is_product else "shared-bandwidth/main"
