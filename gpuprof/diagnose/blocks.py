"""Rules on blocks: their size, their lifetime, and whether they all have equal work."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.case import WELL_USED, Case
from gpuprof.diagnose.far_memory import far_memory
from gpuprof.diagnose.launch import (
    AT_WARPS,
    AVERAGE_SM,
    BUSIEST_SM,
    COVERED,
    FULL,
    FULL_WAVE,
    LATENCIES,
    SHORT,
    STARVED_ISSUE,
    TAIL_SLACK,
    TAKEN,
    active_evidence,
    has_room,
    has_tail,
    idle_sms,
    in_another_launch,
    is_held_by_blocks,
    is_short,
    is_tail,
    is_taken,
    is_under_a_wave,
    others_cover,
    tail_share,
    theoretical_evidence,
    without_idle,
)
from gpuprof.diagnose.needs import LAUNCH, LAUNCH_S, Saving
from gpuprof.diagnose.rule import LOW, Findings, Rule, Threshold, amounts_of, cases_named, context, finding, percent
from gpuprof.diagnose.traffic import late_share
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.occupancy import blocks_at_once, launch_resources, theoretical_occupancy
from gpuprof.model.session import Evidence, Finding
from gpuprof.units import WARP_THREADS

EMPTY_LANES = percent("empty-lanes", 100 * LOW)
OCCUPANCY_GAP = Threshold("occupancy-gap", 10.0, "percentage point")
IMBALANCE = percent("idle-sms", 10.0)
RAMP = Threshold("idle-time", LAUNCH_S, "s")
UNEVEN_BLOCKS = percent("idle-sms-with-block", 50.0)
SHORT_BLOCK = Threshold("short-block", 2000.0, "cycle")
SLICES = percent("slice-imbalance", 5.0)
SLICE_BUSY = percent("slice-busy", 50.0)

_BUSIEST_SLICE, _AVERAGE_SLICE = "lts__cycles_active.max", "lts__cycles_active.avg"
LANES = ("smsp__thread_inst_executed_per_inst_executed.ratio", "derived__avg_thread_executed")
"""Active threads of an executed warp instruction."""
_MOST_WARPS = 32
"""The warps of the largest block: 1024 threads."""
_SAME_WARPS = "same-speed-per-warp"
NOT_OF_LANES = ("dram", "l2", "tensor", LAUNCH)
"""Units that empty lanes cost nothing. Bytes do not depend on the threads that ask, and matrix
instructions use all lanes."""


def moves_bytes_well(case: Case) -> bool:
    """Return whether L2 or DRAM is well used, however many lanes ask for the bytes."""
    return any(case.need(unit) >= WELL_USED for unit in ("dram", "l2"))


def lanes_of_block(case: Case) -> float:
    """Return the average lanes of a warp that the threads of a block fill; all if unknown."""
    threads, warps = case.threads_per_block, case.warps_per_block
    if not threads or not warps:
        return WARP_THREADS
    return threads / warps


def leaves_lanes_empty(case: Case) -> bool:
    """Return whether warps execute instructions for lanes that no thread fills."""
    return EMPTY_LANES.is_reached(1.0 - _filled_lanes(case))


def has_few_lanes(case: Case) -> bool:
    """Return whether no warp of a block can be full, so that only a few lanes access memory."""
    threads = case.threads_per_block
    return threads is not None and threads < WARP_THREADS


def has_few_warps(case: Case) -> bool:
    """Return whether an SM full of such blocks still has free warp slots or empty lanes."""
    return has_few_lanes(case) or is_held_by_blocks(case)


def _filled_lanes(case: Case) -> float:
    """Return the share of lanes with a thread, over the executed instructions; 1 if unknown.

    If the last warp executes less than the others, more lanes are active than a block fills on
    average.
    """
    return min(1.0, max(lanes_of_block(case), case.number(*LANES) or 0.0) / WARP_THREADS)


def _block_size(case: Case) -> Findings:
    threads, warps = case.threads_per_block, case.warps_per_block
    if not threads or not warps:
        return
    filled = _filled_lanes(case)
    empties = leaves_lanes_empty(case)
    capped = _would_larger_blocks_help(case)
    if not empties and not capped:
        return
    blocks_per_sm = blocks_at_once(case.metrics, case.kernel.block, case.arch)
    headline: list[str] = []
    why: list[str] = []
    evidence = [*context("threads", threads, "thread", metric="launch__block_size")]
    missing = 0.0
    confidence: Confidence = "guess" if case.busiest_need is None else "measured"
    slots = "all-slots" if blocks_per_sm is None else "slots"
    if empties:
        headline.append("lanes")
        why.append("lanes")
        slots = f"and-{slots}"
        evidence += case.metric(case.first_of(LANES), "active-threads", "thread")
        evidence.append(EMPTY_LANES.evidence(100 * (1.0 - filled)))
    if capped:
        headline.append(slots)
        why.append("slots")
        confidence = "inferred"
        missing = _with_more_warps(case)
        evidence += theoretical_evidence(case, FULL.value)
        evidence += case.issue_evidence(STARVED_ISSUE.value)
        evidence += case.busiest_evidence("busiest-unit", STARVED_ISSUE.value)
    change = ("full-warps", "one-warp") if threads < WARP_THREADS or capped else ("multiple-of-32",)
    saving = case.saving_beside(NOT_OF_LANES, filled if empties else 1.0).only_if("same-bytes-through-l2-and-dram")
    yield finding(
        case,
        Cases(headline=tuple(headline), why=tuple(why), action=change[:1], advice=change),
        amounts=(
            *amounts_of("thread", threads=threads),
            *amounts_of("lane", lanes=threads / warps),
            *amounts_of("warp", warps=warps),
            *amounts_of("block", blocks=blocks_per_sm),
            *amounts_of(occupancy=case.occupancy.theoretical),
        ),
        confidence=confidence,
        saving=saving.if_held(case.working_share * (1.0 - filled * (1.0 - missing)), _SAME_WARPS),
        is_fact=moves_bytes_well(case) and not has_few_lanes(case),
        evidence=evidence,
    )


def _would_larger_blocks_help(case: Case) -> bool:
    """Return whether more warps in the slots that small blocks leave empty would help.

    All other slots must be taken and no unit busy: a queue can only be full if a unit is busy. If
    warp states are known, they must be waits that other warps cover.
    """
    has_free_slots = is_held_by_blocks(case) and not is_under_a_wave(case)
    return has_free_slots and has_room(case) and is_taken(case) and others_cover(case)


def _with_more_warps(case: Case) -> float:
    """Return the saving of larger blocks that fill the available warp slots."""
    most = _most_by_larger_blocks(case)
    if not most:
        return 0.0
    missing = max(0.0, 1.0 - (case.occupancy.theoretical or 0.0) / most)
    return min(1.0 - (case.issue_active or 0.0), missing, case.stall_at_most(*LATENCIES))


def _most_by_larger_blocks(case: Case) -> float:
    """Return the best occupancy of blocks with more warps of the same resources each."""
    arch = case.arch
    resources = launch_resources(case.metrics, case.kernel.block, arch)
    own = case.warps_per_block
    if resources is None or not own:
        return 1.0
    alone = resources.shared_bytes_per_block - resources.reserved_shared_bytes
    reached: list[float] = []
    for warps in range(own, _MOST_WARPS + 1):
        shared = resources.reserved_shared_bytes + -(-alone * warps // own)
        block = replace(resources, threads_per_block=WARP_THREADS * warps, shared_bytes_per_block=shared)
        occupancy = theoretical_occupancy(block, arch)
        if occupancy is not None:
            reached.append(occupancy.fraction)
    return max(reached, default=1.0)


def has_short_blocks(case: Case) -> bool:
    """Return whether blocks are so short that warp slots are often empty between them."""
    return case.block_cycles is not None and case.block_cycles < SHORT_BLOCK.value


def is_between_blocks(case: Case) -> bool:
    """Return whether short blocks leave so many warp slots empty that occupancy has a gap."""
    achieved, theoretical = case.occupancy.achieved, case.occupancy.theoretical
    if achieved is None or theoretical is None or not has_short_blocks(case):
        return False
    return OCCUPANCY_GAP.is_reached(theoretical - achieved)


class _Gap(Struct, frozen=True):
    """Warp slots that are empty despite enough blocks, beyond those of a partial last wave."""

    achieved: float
    theoretical: float
    expected: float

    @property
    def empty(self) -> float:
        """The empty share of the warp slots that blocks could fill while an SM has work."""
        return 1.0 - self.achieved / self.expected


def _gap_of(case: Case) -> _Gap | None:
    """Return the gap of occupancy; None if it is small, or a small grid or a tail explains it."""
    waves, idle = case.waves, idle_sms(case)
    achieved, theoretical = case.occupancy.achieved, case.occupancy.theoretical
    if waves is None or is_under_a_wave(case) or not theoretical or achieved is None:
        # Without waves a small grid looks the same.
        return None
    if idle is not None and is_tail(waves, idle):
        return None
    expected = theoretical
    if has_tail(waves):
        expected *= 1.0 - tail_share(waves)
    if not OCCUPANCY_GAP.is_reached(expected - achieved):
        return None
    return _Gap(achieved, theoretical, expected)


def _gap_evidence(case: Case, gap: _Gap) -> Iterator[Evidence]:
    if case.block_cycles is not None:
        yield SHORT_BLOCK.evidence(case.block_cycles, "block-lifetime")
    yield from context(
        "achieved-occupancy", 100 * gap.achieved, "%", metric="sm__warps_active.avg.pct_of_peak_sustained_active"
    )
    yield from theoretical_evidence(case)
    role = "occupancy-below-beyond-tail" if gap.expected != gap.theoretical else "occupancy-below"
    yield OCCUPANCY_GAP.evidence(100 * (gap.expected - gap.achieved), role)


def _short_blocks(case: Case) -> Findings:
    gap, cycles = _gap_of(case), case.block_cycles
    if gap is None or cycles is None or not has_short_blocks(case) or not _ends_together(case):
        return
    saving = case.saving_of_wait(gap.empty)
    if case.active_share is not None:
        saving = saving.no_more_than(gap.empty * case.active_share)
    is_well_used = max(case.busiest or 0.0, case.busiest_need or 0.0) >= WELL_USED
    yield finding(
        case,
        Cases(why=("main", "well-used") if is_well_used else MAIN),
        amounts=(
            *amounts_of("cycle", cycles=cycles),
            *amounts_of(achieved=gap.achieved, theoretical=gap.theoretical),
        ),
        confidence="inferred" if has_room(case) else "guess",
        saving=replace(saving, assumes=(_SAME_WARPS,)),
        is_fact=is_well_used,
        evidence=(*_gap_evidence(case, gap), *active_evidence(case)),
    )


def _imbalance(case: Case) -> Findings:
    alike = _are_alike(case)
    if is_under_a_wave(case):
        if not alike:
            yield from _uneven_few_blocks(case)
        return
    if case.busiest_share is None and _is_idle_late(case):
        late = late_share(case)
        seen = IMBALANCE.evidence(100 * late, "idle-beyond-launch")
        yield _idle_on_average(case, "average-sm", without_idle(case, late), seen)
        return
    if case.busiest_share is None and _is_idle_by_launch(case):
        # Blocks that begin late and end early also leave warp slots of working SMs empty.
        seen = IMBALANCE.evidence(100 * (1.0 - (case.active_share or 0.0)), "idle-average-sm")
        yield _idle_on_average(case, "by-launch", in_another_launch(case), seen)
        yield from _uneven_slices(case)
        return
    idle = idle_sms(case)
    if idle is not None and not alike and not _is_by_launch(case, idle):
        # A small grid leaves SMs idle, too, if it is not known how many it can fill.
        is_grid_known = case.waves is not None or (case.blocks is not None and case.sms is not None)
        yield finding(
            case,
            Cases(headline=("busiest-sm",)),
            amounts=amounts_of(longer=1 / (1 - idle) - 1),
            confidence="measured" if is_grid_known else "guess",
            saving=without_idle(case, case.working_share * idle),
            evidence=(
                *case.metrics_as({BUSIEST_SM: "busiest-sm", AVERAGE_SM: "average-sm"}, "cycle"),
                IMBALANCE.evidence(100 * idle, "idle-average-sm"),
            ),
        )
        return
    if not alike:
        yield from _occupancy_gap(case)
    yield from _uneven_slices(case)


_OF_SCHEDULERS = ("smsp__inst_executed.max", "smsp__inst_executed.min")


def _are_alike(case: Case) -> bool:
    """Return whether all warps executed the same instructions, so no block has more to do.

    Then each opcode's count is a multiple of the number of warps. That is also possible with unlike
    warps: for example, block b of an odd number of blocks runs a loop b times. But then the busiest
    and the idlest scheduler did not execute a multiple of the instructions of an average warp.
    """
    warps, counts = case.warps, case.opcodes().values()
    executed = sum(counts)
    if not warps or not executed or any(count % warps for count in counts):
        return False
    return all((case.number(name) or 0.0) % (executed / warps) == 0 for name in _OF_SCHEDULERS)


def _uneven_few_blocks(case: Case) -> Findings:
    """Yield a finding if SMs are idle early although all blocks start at once, one per SM."""
    blocks, sms = case.blocks, case.sms
    active, duration = case.active_share, case.kernel.duration_s
    if not blocks or not sms or blocks > sms or active is None or duration is None:
        return
    with_work = blocks / sms
    idle = 1.0 - active / with_work
    if not UNEVEN_BLOCKS.is_reached(idle) or idle * duration < SHORT.value:
        return
    yield finding(
        case,
        Cases(headline=("few-blocks",), why=("few-blocks",)),
        amounts=amounts_of(working=1 - idle),
        confidence="inferred",
        saving=without_idle(case, idle - (1.0 - case.working_share), _SAME_WARPS),
        evidence=(
            *active_evidence(case),
            *context("sms-with-block", 100 * with_work, "%"),
            UNEVEN_BLOCKS.evidence(100 * idle, "idle-with-block"),
        ),
    )


def _is_idle_late(case: Case) -> bool:
    """Return whether an average SM idles longer than the launch and a partial last wave take, with
    blocks for all SMs.

    If the number of SMs is not known, the grid needs a block for each SM of the largest GPU of the
    architecture.
    """
    late, waves, most = late_share(case), case.waves, case.most_sms
    if case.kernel.duration_s is None or _is_by_launch(case, late):
        return False
    if waves is not None:
        return not has_tail(waves) or late > tail_share(waves)
    return bool(case.blocks and most and case.blocks >= most)


def _idle_on_average(case: Case, name: str, saving: Saving, seen: Evidence) -> Finding:
    """Return a finding on SMs without work if the busiest SM was not collected."""
    return finding(
        case,
        cases_named(name),
        amounts=(*amounts_of(idle=1.0 - (case.active_share or 0.0)), *amounts_of("s", duration=case.kernel.duration_s)),
        confidence="inferred",
        saving=saving,
        evidence=(*active_evidence(case), seen),
    )


def _is_idle_by_launch(case: Case) -> bool:
    """Return whether an average SM is idle because the kernel starts and ends, not for lack of
    blocks.

    False if stalls are known, because they show what else the kernel waits for. False, too, with a
    partial last wave, which also leaves SMs idle.
    """
    waves, active = case.waves, case.active_share
    if waves is None or waves < FULL_WAVE.value or active is None or case.stalls or is_short(case) or has_tail(waves):
        return False
    return IMBALANCE.is_reached(1.0 - case.working_share) and 1.0 - active <= 2 * (1.0 - case.working_share)


def _is_by_launch(case: Case, idle: float) -> bool:
    """Return whether SMs can idle this long with equal blocks: shortly, or by uneven division."""
    duration, waves = case.kernel.duration_s, case.waves
    if not IMBALANCE.is_reached(idle) or (has_short_blocks(case) and _ends_together(case)):
        return True
    if duration is not None and idle * duration < RAMP.value:
        return True
    if waves is not None:
        return is_tail(waves, idle)
    blocks, sms = case.blocks, case.sms
    rounds = blocks / sms if blocks and sms else 0.0
    return rounds > 0 and 100 * (idle - (1.0 - rounds / math.ceil(rounds))) <= TAIL_SLACK.value


def _ends_together(case: Case) -> bool:
    """Return whether no SM works longer than the average one by more than a short block and the
    start of the next.

    If one does, a few blocks are long, however short the average block is.
    """
    busiest, average = case.number(BUSIEST_SM), case.number(AVERAGE_SM)
    return busiest is None or average is None or busiest - average <= 2 * SHORT_BLOCK.value


def _occupancy_gap(case: Case) -> Findings:
    """Yield a finding on low occupancy with long blocks: warps or blocks end at different times."""
    gap = _gap_of(case)
    if gap is None or has_short_blocks(case) or far_memory(case) is not None:
        return
    yield finding(
        case,
        Cases(headline=("occupancy",), why=("occupancy",)),
        amounts=amounts_of(achieved=gap.achieved, theoretical=gap.theoretical),
        confidence="guess",
        saving=replace(case.saving_of_wait(gap.empty), assumes=(_SAME_WARPS,)),
        is_fact=(case.busiest or 0.0) >= WELL_USED,
        evidence=_gap_evidence(case, gap),
    )


def _uneven_slices(case: Case) -> Findings:
    busiest, average = case.number(_BUSIEST_SLICE), case.number(_AVERAGE_SLICE)
    if not busiest or not average or not SLICES.is_reached(busiest / average - 1):
        return
    evidence = [
        *case.metrics_as({_BUSIEST_SLICE: "busiest-slice", _AVERAGE_SLICE: "average-slice"}, "cycle"),
        SLICES.evidence(100 * (busiest / average - 1), "above-average"),
    ]
    is_busy = False
    saving = None
    l2 = case.utilisation.get("l2")
    if l2 is not None:
        of_busiest = l2 * busiest / average
        part = average / busiest
        is_busy = SLICE_BUSY.is_reached(of_busiest)
        saving = case.saving({"l2": part}).if_held(min(of_busiest, 1.0 - part), "same-accesses")
        saving = saving.only_if("same-accesses")
        evidence += context("unit-busy", 100 * l2, "%", "l2")
    yield finding(
        case,
        cases_named("slices"),
        subject="l2",
        amounts=amounts_of(longer=busiest / average - 1),
        confidence="inferred" if is_busy else "guess",
        saving=saving,
        evidence=evidence,
    )


RULES = (
    Rule(
        "block-size",
        thresholds=(EMPTY_LANES, STARVED_ISSUE, TAKEN, COVERED),
        check=_block_size,
        survives_code_change=leaves_lanes_empty,
        metrics=(LANES[0],),
        place=AT_WARPS,
    ),
    Rule(
        "short-blocks",
        thresholds=(SHORT_BLOCK, OCCUPANCY_GAP, STARVED_ISSUE),
        check=_short_blocks,
        metrics=(AVERAGE_SM,),
        place=AT_WARPS,
    ),
    Rule(
        "load-imbalance",
        thresholds=(IMBALANCE, RAMP, UNEVEN_BLOCKS, SHORT_BLOCK, TAIL_SLACK, OCCUPANCY_GAP, SLICES, SLICE_BUSY),
        check=_imbalance,
        metrics=(BUSIEST_SM, AVERAGE_SM, _BUSIEST_SLICE, _AVERAGE_SLICE),
        place=AT_WARPS,
    ),
)
