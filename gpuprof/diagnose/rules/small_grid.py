"""The grid has too few blocks for the GPU."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.bounds import PER_SM, PER_WARP, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import WAVES
from gpuprof.diagnose.facts.needs import LAUNCH, LAUNCH_MOST_S, WORK
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import (
    FEW_WARPS,
    FULL_WAVE,
    HALF_WAVE,
    LAUNCH_ALONE,
    NOTHING,
    STARVED_ISSUE,
    TAIL_SHARE,
    TAIL_SLACK,
)
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, Cases, Label
from gpuprof.model.session import Evidence, Finding

_LEAST_WAVES = 0.01
"""Text exports round waves to two digits."""

_FEWEST_SMS = 4
"""No GPU since Volta has fewer SMs: Orin Nano 4GB has 4."""


def _small_grid(facts: KernelFacts) -> Findings:
    blocks, sms, waves = facts.blocks, facts.sms, facts.waves
    if blocks is None:
        return
    if sms is None and waves is None:
        yield from _few_blocks(facts, blocks)
        return
    empty = (0.0, PER_SM) if waves is None else _empty_slots(facts, waves)
    confidence: Confidence = "measured"
    why = "main"
    if sms is not None and blocks < sms:
        headline, why, amounts = ["few-blocks"], "no-block", amounts_of()
        theoretical = facts.occupancy.theoretical
        if waves is not None and waves >= _LEAST_WAVES and theoretical is not None:
            headline.append("slots")
            amounts = amounts_of(filled=waves * theoretical)
        without_block = 1.0 - blocks / sms
        if without_block > empty[0]:
            empty = (without_block, PER_SM)
    elif waves is not None and waves < FULL_WAVE.value:
        if waves >= HALF_WAVE.value:
            confidence = "inferred" if facts.has_room else "guess"
        headline = ["one-block" if blocks == 1 else "blocks"]
        if waves < _LEAST_WAVES:
            headline[0] += "-hardly"
        if sms is not None:
            headline.append("on-sms")
            why = "every-sm"
        amounts = amounts_of(waves=waves, least=_LEAST_WAVES)
    else:
        return
    yield _grid_finding(
        facts,
        blocks,
        sms,
        Cases(headline=tuple(headline), why=(why,)),
        confidence,
        *empty,
        amounts=amounts,
        evidence=facts.metric(WAVES, "waves", "wave", FULL_WAVE.value),
    )


def _few_blocks(facts: KernelFacts, blocks: int) -> Findings:
    """Report fewer blocks than a GPU has SMs, if neither waves nor SMs are known."""
    sms = facts.hardware.fewest_sms() or _FEWEST_SMS
    confidence: Confidence = "guess"
    cases = Cases(headline=("architecture",), why=("perhaps-no-block",))
    name = facts.arch.name.removeprefix("sm_")
    labels = labels_of(capability=(f"{name[:-1]}.{name[-1:]}",))
    evidence: tuple[Evidence, ...] = ()
    seen = _sms_by_idle(facts, blocks)
    if seen is not None:
        sms, confidence = seen
        cases = replace(cases, headline=("about",))
        labels, evidence = (), facts.active_evidence()
    elif blocks >= sms:
        return
    elif blocks < _FEWEST_SMS:
        confidence = "inferred"
        cases = Cases(headline=("any-gpu",), why=("no-block",))
    yield _grid_finding(facts, blocks, sms, cases, confidence, 1.0 - blocks / sms, labels=labels, evidence=evidence)


def _sms_by_idle(facts: KernelFacts, blocks: int) -> tuple[int, Confidence] | None:
    """Infer the number of SMs, and its confidence, from the share of time with work.

    If no SM has more than one block, the number is blocks ÷ that share, or less if blocks end
    early. Return None if the launch itself can leave SMs without work for that long, or if no GPU
    has so many SMs.
    """
    active, duration = facts.active_share, facts.kernel.duration_s
    if not active or not duration or not TAIL_SHARE.is_reached(1.0 - active - LAUNCH_MOST_S / duration):
        return None
    counts = [count for gpu in facts.hardware.siblings() if (count := gpu.number("sm_count"))]
    sms = blocks / active
    nearest = min(counts, key=lambda count: abs(count - sms), default=0.0)
    if blocks < nearest and 100 * abs(sms / nearest - 1.0) <= TAIL_SLACK.value:
        return round(nearest), "inferred"
    if sms >= max(counts, default=0.0):
        return None
    return round(sms), "guess"


def _grid_finding(
    facts: KernelFacts,
    blocks: int,
    sms: int | None,
    cases: Cases,
    confidence: Confidence,
    empty: float,
    assumption: str = PER_SM,
    *,
    amounts: tuple[Amount, ...] = (),
    labels: tuple[Label, ...] = (),
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    return finding(
        facts,
        cases,
        amounts=(Amount("blocks", blocks, "block"), *amounts_of("SM", sms=sms), *amounts),
        labels=labels,
        confidence=confidence,
        # More blocks mostly divide the work in another way and change the accesses, so these give
        # no bound.
        saving=speedup_bound(facts, {})
        .if_held(facts.working_share * empty, assumption)
        .only_if("same-instructions-and-accesses"),
        evidence=(
            Evidence("launch__grid_size", float(blocks), "block", float(sms) if sms else None, role="blocks"),
            *evidence,
        ),
    )


def _empty_slots(facts: KernelFacts, waves: float) -> tuple[float, str]:
    """Return the empty part of the block slots, or of the warp slots if large tiles allow a quarter
    of these or less.

    The second value is the assumption for when that part has work. Smaller tiles fix both the few
    blocks and the few warps of each SM. The gain depends on the capacity of the SMs, so this
    applies only if counters show how busy they are; a launch alone does not.
    """
    theoretical = facts.occupancy.theoretical
    is_counted = any(unit not in (LAUNCH, WORK) for unit in facts.needs)
    if theoretical is None or theoretical > FEW_WARPS.value / 100 or not is_counted:
        return 1.0 - waves, PER_WARP
    return 1.0 - waves * theoretical, "same-speed-per-warp-in-smaller-tiles"


RULE = Rule(
    "small-grid",
    thresholds=(FULL_WAVE, HALF_WAVE, FEW_WARPS, STARVED_ISSUE, NOTHING, LAUNCH_ALONE, TAIL_SHARE, TAIL_SLACK),
    check=_small_grid,
    metrics=(WAVES,),
    by_times=True,
    place=AT_WARPS,
)
