"""SMs, warps or slices of L2 have unequal work."""

from __future__ import annotations

import math

from msgspec.structs import replace

from gpuprof.diagnose.bounds import PER_WARP, Saving, bound_of_wait, in_another_launch, speedup_bound, without_idle
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import AVERAGE_SM, BUSIEST_SM, has_tail, is_tail, tail_share
from gpuprof.diagnose.facts.needs import LAUNCH_S
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, cases_named, finding
from gpuprof.diagnose.thresholds import (
    FULL_WAVE,
    IMBALANCE,
    OCCUPANCY_GAP,
    SHORT,
    SHORT_BLOCK,
    TAIL_SLACK,
    WELL_USED,
    Threshold,
    context,
    percent,
)
from gpuprof.model.findings import Cases
from gpuprof.model.session import Evidence, Finding

RAMP = Threshold("idle-time", LAUNCH_S, "s")

UNEVEN_BLOCKS = percent("idle-sms-with-block", 50.0)

SLICES = percent("slice-imbalance", 5.0)

SLICE_BUSY = percent("slice-busy", 50.0)

_BUSIEST_SLICE, _AVERAGE_SLICE = "lts__cycles_active.max", "lts__cycles_active.avg"


def _imbalance(facts: KernelFacts) -> Findings:
    alike = _are_alike(facts)
    if facts.is_under_a_wave:
        if not alike:
            yield from _uneven_few_blocks(facts)
        return
    if facts.busiest_share is None and _is_idle_late(facts):
        late = facts.late_share
        seen = IMBALANCE.evidence(100 * late, "idle-beyond-launch")
        yield _idle_on_average(facts, "average-sm", without_idle(facts, late), seen)
        return
    if facts.busiest_share is None and _is_idle_by_launch(facts):
        # Blocks that begin late and end early also leave warp slots of working SMs empty.
        seen = IMBALANCE.evidence(100 * (1.0 - (facts.active_share or 0.0)), "idle-average-sm")
        yield _idle_on_average(facts, "by-launch", in_another_launch(facts), seen)
        yield from _uneven_slices(facts)
        return
    idle = facts.idle_sms
    if idle is not None and not alike and not _is_by_launch(facts, idle):
        # A small grid leaves SMs idle, too, if it is not known how many it can fill.
        is_grid_known = facts.waves is not None or (facts.blocks is not None and facts.sms is not None)
        yield finding(
            facts,
            Cases(headline=("busiest-sm",)),
            amounts=amounts_of(longer=1 / (1 - idle) - 1),
            confidence="measured" if is_grid_known else "guess",
            saving=without_idle(facts, facts.working_share * idle),
            evidence=(
                *facts.metrics_as({BUSIEST_SM: "busiest-sm", AVERAGE_SM: "average-sm"}, "cycle"),
                IMBALANCE.evidence(100 * idle, "idle-average-sm"),
            ),
        )
        return
    if not alike:
        yield from _occupancy_gap(facts)
    yield from _uneven_slices(facts)


_OF_SCHEDULERS = ("smsp__inst_executed.max", "smsp__inst_executed.min")


def _are_alike(facts: KernelFacts) -> bool:
    """Return whether all warps executed the same instructions, so no block has more to do.

    Then each opcode's count is a multiple of the number of warps. That is also possible with unlike
    warps: for example, block b of an odd number of blocks runs a loop b times. But then the busiest
    and the idlest scheduler did not execute a multiple of the instructions of an average warp.
    """
    warps, counts = facts.warps, facts.opcodes().values()
    executed = sum(counts)
    if not warps or not executed or any(count % warps for count in counts):
        return False
    return all((facts.number(name) or 0.0) % (executed / warps) == 0 for name in _OF_SCHEDULERS)


def _uneven_few_blocks(facts: KernelFacts) -> Findings:
    """Yield a finding if SMs are idle early although all blocks start at once, one per SM."""
    blocks, sms = facts.blocks, facts.sms
    active, duration = facts.active_share, facts.kernel.duration_s
    if not blocks or not sms or blocks > sms or active is None or duration is None:
        return
    with_work = blocks / sms
    idle = 1.0 - active / with_work
    if not UNEVEN_BLOCKS.is_reached(idle) or idle * duration < SHORT.value:
        return
    yield finding(
        facts,
        Cases(headline=("few-blocks",), why=("few-blocks",)),
        amounts=amounts_of(working=1 - idle),
        confidence="inferred",
        saving=without_idle(facts, idle - (1.0 - facts.working_share), PER_WARP),
        evidence=(
            *facts.active_evidence(),
            *context("sms-with-block", 100 * with_work, "%"),
            UNEVEN_BLOCKS.evidence(100 * idle, "idle-with-block"),
        ),
    )


def _is_idle_late(facts: KernelFacts) -> bool:
    """Return whether an average SM idles longer than the launch and a partial last wave take, with
    blocks for all SMs.

    If the number of SMs is not known, the grid needs a block for each SM of the largest GPU of the
    architecture.
    """
    late, waves, most = facts.late_share, facts.waves, facts.most_sms
    if facts.kernel.duration_s is None or _is_by_launch(facts, late):
        return False
    if waves is not None:
        return not has_tail(waves) or late > tail_share(waves)
    return bool(facts.blocks and most and facts.blocks >= most)


def _idle_on_average(facts: KernelFacts, name: str, saving: Saving, seen: Evidence) -> Finding:
    """Return a finding on SMs without work if the busiest SM was not collected."""
    return finding(
        facts,
        cases_named(name),
        amounts=(
            *amounts_of(idle=1.0 - (facts.active_share or 0.0)),
            *amounts_of("s", duration=facts.kernel.duration_s),
        ),
        confidence="inferred",
        saving=saving,
        evidence=(*facts.active_evidence(), seen),
    )


def _is_idle_by_launch(facts: KernelFacts) -> bool:
    """Return whether an average SM is idle because the kernel starts and ends, not for lack of
    blocks.

    False if stalls are known, because they show what else the kernel waits for. False, too, with a
    partial last wave, which also leaves SMs idle.
    """
    waves, active = facts.waves, facts.active_share
    if waves is None or waves < FULL_WAVE.value or active is None or facts.stalls or facts.is_short or has_tail(waves):
        return False
    return IMBALANCE.is_reached(1.0 - facts.working_share) and 1.0 - active <= 2 * (1.0 - facts.working_share)


def _is_by_launch(facts: KernelFacts, idle: float) -> bool:
    """Return whether SMs can idle this long with equal blocks: shortly, or by uneven division."""
    duration, waves = facts.kernel.duration_s, facts.waves
    if not IMBALANCE.is_reached(idle) or (facts.has_short_blocks and facts.ends_together):
        return True
    if duration is not None and idle * duration < RAMP.value:
        return True
    if waves is not None:
        return is_tail(waves, idle)
    blocks, sms = facts.blocks, facts.sms
    rounds = blocks / sms if blocks and sms else 0.0
    return rounds > 0 and 100 * (idle - (1.0 - rounds / math.ceil(rounds))) <= TAIL_SLACK.value


def _occupancy_gap(facts: KernelFacts) -> Findings:
    """Yield a finding on low occupancy with long blocks: warps or blocks end at different times."""
    gap = facts.occupancy_gap
    if gap is None or facts.has_short_blocks or facts.far_memory is not None:
        return
    yield finding(
        facts,
        Cases(headline=("occupancy",), why=("occupancy",)),
        amounts=amounts_of(achieved=gap.achieved, theoretical=gap.theoretical),
        confidence="guess",
        saving=replace(bound_of_wait(facts, gap.empty), assumes=(PER_WARP,)),
        is_fact=(facts.busiest or 0.0) >= WELL_USED,
        evidence=facts.gap_evidence(gap),
    )


def _uneven_slices(facts: KernelFacts) -> Findings:
    busiest, average = facts.number(_BUSIEST_SLICE), facts.number(_AVERAGE_SLICE)
    if not busiest or not average or not SLICES.is_reached(busiest / average - 1):
        return
    evidence = [
        *facts.metrics_as({_BUSIEST_SLICE: "busiest-slice", _AVERAGE_SLICE: "average-slice"}, "cycle"),
        SLICES.evidence(100 * (busiest / average - 1), "above-average"),
    ]
    is_busy = False
    saving = None
    l2 = facts.utilisation.get("l2")
    if l2 is not None:
        of_busiest = l2 * busiest / average
        part = average / busiest
        is_busy = SLICE_BUSY.is_reached(of_busiest)
        saving = speedup_bound(facts, {"l2": part}).if_held(min(of_busiest, 1.0 - part), "same-accesses")
        saving = saving.only_if("same-accesses")
        evidence += context("unit-busy", 100 * l2, "%", "l2")
    yield finding(
        facts,
        cases_named("slices"),
        subject="l2",
        amounts=amounts_of(longer=busiest / average - 1),
        confidence="inferred" if is_busy else "guess",
        saving=saving,
        evidence=evidence,
    )


RULE = Rule(
    "load-imbalance",
    thresholds=(IMBALANCE, RAMP, UNEVEN_BLOCKS, SHORT_BLOCK, TAIL_SLACK, OCCUPANCY_GAP, SLICES, SLICE_BUSY),
    check=_imbalance,
    metrics=(BUSIEST_SM, AVERAGE_SM, _BUSIEST_SLICE, _AVERAGE_SLICE),
    place=AT_WARPS,
)
