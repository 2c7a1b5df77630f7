"""Lanes of a warp access different words of the same bank of shared memory."""

from __future__ import annotations

from gpuprof.diagnose.bounds import OTHER_WAITS, Saving, speedup_bound
from gpuprof.diagnose.facts.counters import SHARED_BUSY, SHARED_PASSES
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import SHARED_CONFLICTS, SHARED_CONFLICTS_BY_KIND
from gpuprof.diagnose.facts.units import WAVEFRONTS
from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.rule import AT_SHARED, CONFLICT_SHARE, Findings, Rule, amounts_of, counts_case, finding
from gpuprof.diagnose.thresholds import WELL_USED, Threshold, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import CaseName, Cases

CONFLICTS = percent("conflicts", 5.0)

CONFLICTS_A_WARP = Threshold("conflicts-per-warp", 1.0, "wavefront/warp")

_WAVES = "memory_l1_wavefronts_shared"

_WAVES_EXCESS = "derived__memory_l1_wavefronts_shared_excessive"

_PASSES_OF_KINDS = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
)

_SASS_KINDS = ("_op_ld", "_op_ldsm", "_op_ldgsts", "_op_st", "_op_stsm", "_op_atom", "_op_red")

_Counters = tuple[tuple[str, ...], tuple[str, ...]]
"""Counters of conflicts and of all passes."""

_COUNTED_BY: tuple[_Counters, ...] = (
    ((SHARED_CONFLICTS,), (SHARED_PASSES,)),
    (SHARED_CONFLICTS_BY_KIND, _PASSES_OF_KINDS),
    *(
        (
            tuple(f"{unit}__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared{kind}.sum" for kind in kinds),
            (f"{unit}__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared.sum",),
        )
        for unit in ("sm", "smsp")
        for kinds in (("",), _SASS_KINDS)
    ),
)
"""Those of the hardware, in order of preference."""


def _bank_conflicts(facts: KernelFacts) -> Findings:
    conflicts, passes = _counters(facts)
    excess = facts.total(conflicts) or 0.0
    # The conflicts are of all accesses, so the passes of loads alone are no total for them.
    total = facts.total(passes, of_all=True) or facts.number(SHARED_PASSES)
    roles = dict.fromkeys(conflicts, "conflict-wavefronts") | dict.fromkeys(passes, "wavefronts")
    confidence: Confidence = "measured" if _WAVES in passes else "inferred"
    saving = None
    if not total:
        per_warp = excess / facts.warps if facts.warps else 0.0
        if per_warp < CONFLICTS_A_WARP.value:
            return
        headline: tuple[CaseName, ...] = ("per-warp",)
        amounts = amounts_of("", per_warp=per_warp)
        evidence = CONFLICTS_A_WARP.evidence(per_warp)
    else:
        fraction = min(1.0, excess / total)
        if not CONFLICTS.is_reached(fraction):
            return
        headline = ("wavefronts", counts_case(total))
        amounts = amounts_of(share=fraction) + amounts_of("", excess=excess, total=total)
        evidence = CONFLICTS.evidence(100 * fraction, CONFLICT_SHARE)
        busy = _busy(facts, excess / fraction)
        if busy is None and not facts.stalls:
            # Without the load of L1 or stalls, a share of its passes does not show a cost.
            busy = 1.0
            confidence = "guess"
        saving = _without_conflicts(facts, fraction, busy)
    yield finding(
        facts,
        Cases(headline=headline),
        amounts=amounts,
        subject="shared",
        confidence=confidence,
        saving=saving,
        evidence=(*facts.metrics_as(roles, "wavefront"), evidence, *facts.stall_evidence(*SHARED_STALLS)),
        place=facts.code.place_of(_WAVES_EXCESS, _WAVES),
    )


def _counters(facts: KernelFacts) -> _Counters:
    """Return the counters of instrumentation, else the first of the hardware with any conflicts, which
    include others; empty if there are none."""
    if facts.total((_WAVES_EXCESS, _WAVES), of_all=True) is not None:
        return (_WAVES_EXCESS,), (_WAVES,)
    # Some counters leave out accesses that others count, such as matrix loads.
    return next((counters for counters in _COUNTED_BY if facts.total(counters[0])), ((), ()))


def _busy(facts: KernelFacts, passes: float) -> float | None:
    """Return the most of the time with work in which L1's data pipe serves shared memory; None if unknown.

    A pass of 32 words takes a cycle with 32 load/store units in an SM, and at most two with 16.
    """
    shared = facts.number(SHARED_BUSY)
    if shared is not None:
        return facts.while_active(shared / 100)
    loads = facts.l1_speed, facts.of_passes(passes / min(1.0, facts.request_rate or 0.5))
    return facts.while_active(min((load for load in loads if load is not None), default=None))


def _without_conflicts(facts: KernelFacts, conflicts: float, busy: float | None) -> Saving:
    """Bound the gain without conflicts by their share of L1's passes and its busy time.

    A pass delays others for the one cycle that it takes. Whatever waits for conflicts therefore
    waits while the pipe works, or if its load was not collected, while warps wait for shared memory.
    These are averages: a kernel lasts as long as its slowest SM.
    """
    shared = facts.number(SHARED_BUSY)
    assumes, keeps = ["same-load-on-all-sms"], facts.l1_keeps()
    if shared is not None:
        keeps = facts.l1_keeps(max(facts.number(WAVEFRONTS) or 0.0, shared) - conflicts * shared)
    if busy is None:
        busy = facts.waits_behind(*SHARED_STALLS)
        assumes.append(OTHER_WAITS)
    delayed = conflicts * min(1.0, busy / WELL_USED)
    return speedup_bound(facts, {"l1": keeps}).if_held(delayed, *assumes)


RULE = Rule(
    "shared-bank-conflict",
    thresholds=(CONFLICTS, CONFLICTS_A_WARP),
    check=_bank_conflicts,
    metrics=(SHARED_PASSES, SHARED_CONFLICTS),
    place=AT_SHARED,
)
