"""The grid has too few blocks for the GPU."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.bounds import PER_SM, PER_WARP, bound_of_wait, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import WAVES
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import FEW_WARPS, LAUNCH_ALONE, NOTHING, STARVED_ISSUE, Threshold
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases
from gpuprof.model.session import Evidence, Finding

NEARLY_FULL = Threshold("nearly-full", 0.9, "wave")

_FEWEST_SMS = 4
"""No GPU since Volta has fewer SMs: Orin Nano 4GB has 4."""

_SLICES = 7
"""The most slices of a GPU (MIG). No other GPU of an architecture has fewer SMs than the smallest such slice of the
smallest one with a spec."""


def _small_grid(facts: KernelFacts) -> Findings:
    """Yield a finding on SMs without a block, and one on warp slots if these are much more."""
    blocks = facts.blocks
    if blocks is None:
        return
    sms = _without_block(facts, blocks)
    slots = _empty_slots(facts, blocks)
    if slots is not None and (sms is None or 2 * (sms.gain_kernel or 0.0) < (slots.gain_kernel or 0.0)):
        yield slots
    if sms is not None:
        yield sms


def _without_block(facts: KernelFacts, blocks: int) -> Finding | None:
    """Return a finding on SMs without a block. If the SMs are not known, infer them from other counts,
    else take those of the smallest GPU of the architecture."""
    sms, case, why = facts.sms_or_implied, "few-blocks", "no-block"
    most = sms or facts.sms_at_most
    confidence: Confidence = "inferred"
    if facts.sms is not None:
        confidence = "measured"
    elif sms is not None:
        case = "about"
    else:
        fewest = facts.hardware.fewest_sms() or _FEWEST_SMS
        if blocks < max(_FEWEST_SMS, fewest / _SLICES):
            sms, case = fewest, "fewer-than-sms"
        elif facts.waves is None:
            sms, case, why, confidence = fewest, "at-least", "perhaps-no-block", "guess"
    if sms is None or blocks >= NEARLY_FULL.value * sms:
        return None
    # More blocks mostly divide the work in another way and change the accesses, so these give no bound.
    at_work = min(facts.working_share, facts.active_with_block or 1.0)
    saving = speedup_bound(facts).if_held(at_work * (1.0 - blocks / most), PER_SM)
    return finding(
        facts,
        Cases(headline=(case,), why=(why,)),
        amounts=amounts_of("block", blocks=blocks) + amounts_of("SM", sms=round(sms)),
        confidence=confidence,
        saving=saving.only_if("same-instructions-and-accesses"),
        evidence=_blocks_evidence(facts, blocks, sms),
    )


def _empty_slots(facts: KernelFacts, blocks: int) -> Finding | None:
    """Return a finding on the warp slots of a wave that have no warp.

    They cost time only if the warps that there are leave issue slots and units idle. If large tiles
    allow a quarter of the warps or less, smaller ones fix both the few blocks and the few warps of
    each SM.
    """
    filled, theoretical = facts.waves, facts.occupancy.theoretical
    if filled is None or filled >= NEARLY_FULL.value:
        return None
    headline, assumption = ["blocks"], PER_WARP
    if filled:
        headline.append("waves")
    if facts.sms is not None:
        headline.append("on-sms")
    if facts.has_room and theoretical is not None and theoretical <= FEW_WARPS.value / 100:
        filled *= theoretical
        assumption = "same-speed-per-warp-in-smaller-tiles"
        headline.append("slots")
    is_exposed = facts.others_cover if facts.busiest is None else facts.has_room
    busiest = max(facts.busiest or 0.0, facts.busiest_need or 0.0, facts.issue_active or 0.0)
    at_work = facts.active_with_block or 1.0
    saving = bound_of_wait(facts, 1.0 - filled).no_more_than(at_work * (1.0 - filled))
    return finding(
        facts,
        Cases(headline=tuple(headline), why=("slots",)),
        amounts=amounts_of("block", blocks=blocks)
        + amounts_of("SM", sms=facts.sms)
        + amounts_of(waves=facts.waves, filled=filled),
        confidence="inferred" if is_exposed else "guess",
        saving=replace(saving, assumes=(assumption,)),
        is_fact=STARVED_ISSUE.is_reached(busiest) and not facts.l1_has_room,
        evidence=_blocks_evidence(facts, blocks, facts.sms),
    )


def _blocks_evidence(facts: KernelFacts, blocks: int, sms: float | None) -> tuple[Evidence, ...]:
    most = float(round(sms)) if sms else None
    return (
        Evidence("launch__grid_size", float(blocks), "block", most, role="blocks"),
        *facts.metric(WAVES, "waves", "wave", NEARLY_FULL.value),
    )


RULE = Rule(
    "small-grid",
    thresholds=(NEARLY_FULL, FEW_WARPS, STARVED_ISSUE, NOTHING, LAUNCH_ALONE),
    check=_small_grid,
    metrics=(WAVES,),
    by_times=True,
    place=AT_WARPS,
)
