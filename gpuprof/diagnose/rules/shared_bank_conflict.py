"""Lanes of a warp access different words of the same bank of shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.counters import SHARED_BUSY, SHARED_PASSES
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import SHARED_CONFLICTS, SHARED_CONFLICTS_BY_KIND
from gpuprof.diagnose.facts.units import WAVEFRONTS
from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.rule import AT_SHARED, CONFLICT_SHARE, Rule, amounts_of, counts_case, finding
from gpuprof.diagnose.thresholds import LOW, WELL_USED, Threshold, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import MAIN, CaseName, Cases
from gpuprof.model.session import Evidence, Finding

CONFLICTS = percent("conflicts", 5.0)

CONFLICTS_A_WARP = Threshold("conflicts-per-warp", 1.0, "wavefront/warp")

_WAVES = "memory_l1_wavefronts_shared"

_WAVES_EXCESS = "derived__memory_l1_wavefronts_shared_excessive"

_WAVES_IDEAL = "memory_l1_wavefronts_shared_ideal"

_PASSES_OF_KINDS = {
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "load-wavefronts",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "store-wavefronts",
}

_SASS_CONFLICTS = "{}__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared{}.sum"

_SASS_PASSES = "{}__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared.sum"

_SASS_KINDS = ("ld", "ldsm", "ldgsts", "st", "stsm", "atom", "red")

_COUNTED_BY: tuple[tuple[Mapping[str, str], Mapping[str, str]], ...] = (
    ({SHARED_CONFLICTS: "conflict-wavefronts-by-hardware"}, {SHARED_PASSES: "wavefronts"}),
    (SHARED_CONFLICTS_BY_KIND, _PASSES_OF_KINDS),
    *(
        (roles, {_SASS_PASSES.format(unit): "wavefronts"})
        for unit in ("sm", "smsp")
        for roles in (
            {_SASS_CONFLICTS.format(unit, ""): "conflict-wavefronts"},
            {_SASS_CONFLICTS.format(unit, f"_op_{kind}"): f"conflict-wavefronts-{kind}" for kind in _SASS_KINDS},
        )
    ),
)
"""Counters of conflicts and of all passes with their roles, in order of preference."""


class _Conflicts(NamedTuple):
    """Wavefronts caused by conflicts, all wavefronts (None if not counted), and the evidence.

    `kind` is the case of the headline.
    """

    excess: float
    total: float | None
    evidence: tuple[Evidence, ...]
    confidence: Confidence = "inferred"
    kind: CaseName = "wavefronts"


def _counted_conflicts(facts: KernelFacts) -> _Conflicts | None:
    """Return the counts of instrumentation, else of the hardware, which include other conflicts."""
    total = facts.number(_WAVES)
    excess = facts.number(_WAVES_EXCESS)
    ideal = facts.number(_WAVES_IDEAL)
    if total is not None:
        if excess is None and ideal is not None:
            excess = total - ideal
        if excess is not None:
            roles = {_WAVES_EXCESS: "conflict-wavefronts", _WAVES_IDEAL: "ideal-wavefronts", _WAVES: "wavefronts"}
            return _Conflicts(excess, total, facts.metrics_as(roles, "wavefront"), "measured")
    for conflicts, passes in _COUNTED_BY:
        excess = facts.total(conflicts)
        if not excess:
            # Some counters leave out accesses that others count, such as matrix loads.
            continue
        # The conflicts are of all accesses, so the passes of loads alone are no total for them.
        total = facts.total(passes, of_all=True) or facts.number(SHARED_PASSES)
        found = _Conflicts(excess, total, facts.metrics_as({**conflicts, **passes}, "wavefront"))
        if total is None and conflicts is SHARED_CONFLICTS_BY_KIND:
            return _conflicts_one_way(facts) or found
        return found
    return None


def _conflicts_one_way(facts: KernelFacts) -> _Conflicts | None:
    """Return the conflicts of loads or of stores if both conflicts and wavefronts were counted."""
    for (conflicts, role), (passes, kind) in zip(
        SHARED_CONFLICTS_BY_KIND.items(), _PASSES_OF_KINDS.items(), strict=True
    ):
        excess, total = facts.number(conflicts), facts.number(passes)
        if excess and total and excess <= total:
            return _Conflicts(excess, total, facts.metrics_as({conflicts: role, passes: kind}, "wavefront"), kind=kind)
    return None


def _bank_conflicts(facts: KernelFacts) -> Iterator[Finding]:
    conflicts = _counted_conflicts(facts)
    if conflicts is None:
        return
    excess = conflicts.excess
    total = conflicts.total
    why = MAIN
    saving = None
    if total is None:
        if not facts.warps or excess / facts.warps < CONFLICTS_A_WARP.value:
            return
        headline: tuple[CaseName, ...] = ("per-warp", "no-total")
        amounts = amounts_of("", per_warp=excess / facts.warps)
        loads, stores = map(facts.number, SHARED_CONFLICTS_BY_KIND)
        if loads and stores and loads + stores == excess:
            headline = ("per-warp", "by-kind", "no-total")
            amounts += amounts_of("", loads=loads / facts.warps, stores=stores / facts.warps)
        evidence = CONFLICTS_A_WARP.evidence(excess / facts.warps)
    else:
        if not total or not CONFLICTS.is_reached(excess / total):
            return
        fraction = min(1.0, excess / total)
        headline = (conflicts.kind, counts_case(total))
        amounts = amounts_of(share=fraction) + amounts_of("", excess=excess, total=total)
        if total > excess:
            why = ("times",)
            amounts += amounts_of("", times=total / (total - excess))
        evidence = CONFLICTS.evidence(100 * fraction, CONFLICT_SHARE)
        saving = _without_conflicts(facts, fraction, excess)
    place = facts.place_of(_WAVES_EXCESS, _WAVES)
    by_code: tuple[Evidence, ...] = ()
    by_hardware = facts.number(SHARED_CONFLICTS)
    if place is None and by_hardware and saving is not None and saving.fraction >= LOW:
        from gpuprof.diagnose.by_code import conflicts_by_code

        place, by_code = conflicts_by_code(facts, by_hardware)
    yield finding(
        facts,
        Cases(headline=headline, why=why),
        amounts=amounts,
        subject="shared",
        confidence=conflicts.confidence,
        saving=saving,
        evidence=(*conflicts.evidence, evidence, *facts.stall_evidence(*SHARED_STALLS), *by_code),
        place=place,
    )


def _without_conflicts(facts: KernelFacts, conflicts: float, excess: float) -> Saving:
    """Bound the gain without conflicts by their share of L1's passes and its busy time.

    A pass delays others for the one cycle that it takes. Whatever waits for conflicts therefore
    waits while the pipe works. The number of passes also bounds how long conflicts keep the pipe
    busy.
    """
    shared = facts.number(SHARED_BUSY)
    delayed = conflicts
    if shared is not None:
        keeps = facts.l1_keeps(max(facts.number(WAVEFRONTS) or 0.0, shared) - conflicts * shared)
        busy = facts.while_active(shared / 100)
    else:
        keeps = facts.l1_keeps()
        busy = facts.while_active(facts.l1_speed)
        counted = facts.while_active(facts.cycles_of_passes(excess))
        if counted is not None:
            delayed = min(delayed, counted / WELL_USED)
    if busy is not None:
        delayed = min(delayed, conflicts * (busy / WELL_USED))
    return speedup_bound(facts, {"l1": keeps}).no_more_than(delayed)


RULE = Rule(
    "shared-bank-conflict",
    kind="defect",
    thresholds=(CONFLICTS, CONFLICTS_A_WARP),
    check=_bank_conflicts,
    metrics=(SHARED_PASSES, SHARED_CONFLICTS),
    place=AT_SHARED,
)
