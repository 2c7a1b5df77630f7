"""Rules on blocks: how many threads they have, how long they live, and whether they all have as much to do."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.arithmetic import opcodes_of
from gpuprof.diagnose.case import WELL_USED, Case
from gpuprof.diagnose.far_memory import far_memory
from gpuprof.diagnose.launch import (
    AVERAGE_SM,
    BUSIEST_SM,
    COVERED,
    FULL,
    FULL_WAVE,
    FUSED,
    LATENCIES,
    SHORT,
    STARVED_ISSUE,
    TAIL_SLACK,
    TAKEN,
    active_evidence,
    count_of,
    has_room,
    has_tail,
    idle_sms,
    is_held_by_blocks,
    is_short,
    is_tail,
    is_taken,
    is_under_a_wave,
    tail_share,
)
from gpuprof.diagnose.needs import LAUNCH, LAUNCH_S, Saving
from gpuprof.diagnose.rule import LOW, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.diagnose.traffic import late_share
from gpuprof.model.field_types import Confidence
from gpuprof.model.occupancy import blocks_at_once, launch_resources, theoretical_occupancy
from gpuprof.model.session import Evidence
from gpuprof.units import WARP_THREADS, format_percent, format_si

EMPTY_LANES = percent(
    "lanes without a thread",
    100 * LOW,
    "less is the last warp of a large block, such as 24 of 1024 lanes; repeated runs hardly tell it from noise",
)
OCCUPANCY_GAP = percent("achieved below theoretical", 10.0, "points of occupancy; NVIDIA's rule uses the same")
IMBALANCE = percent("idle share of the SMs", 10.0, "less is the ramp at the start and the end of a kernel")
RAMP = Threshold(
    "idle time of an average SM", LAUNCH_S, "s", reason="starting the first and ending the last blocks takes this long"
)
UNEVEN_BLOCKS = percent(
    "idle share of SMs with one block",
    50.0,
    "launching takes microseconds of it, and the distance to memory differs between SMs: most of the time is neither",
)
SHORT_BLOCK = Threshold(
    "block lifetime",
    2000.0,
    "cycle",
    reason="a slot stood empty for 347 to 364 cycles between two blocks in recorded reports: a seventh of the time, "
    "or more with shorter blocks, even if all do the same",
)
SLICES = percent("busiest L2 slice above average", 5.0, "the least that NVIDIA's rule reported")
SLICE_BUSY = percent(
    "busiest L2 slice busy",
    50.0,
    "a slice is active while any access is under way: it holds a kernel up where it also works for most of the time",
)

_BUSIEST_SLICE, _AVERAGE_SLICE = "lts__cycles_active.max", "lts__cycles_active.avg"
LANES = ("smsp__thread_inst_executed_per_inst_executed.ratio", "derived__avg_thread_executed")
"""Active threads of an executed warp instruction."""
_MOST_WARPS = 32
"""The warps of the largest block: 1024 threads."""
MORE_WORK_A_BLOCK = "Give each block more work: several elements per thread, or a grid-stride loop"
_SAME_BYTES = "the same bytes through L2 and DRAM"
_SAME_WARPS = "the same speed per warp"
NOT_OF_LANES = ("dram", "l2", "tensor", LAUNCH)
"""What empty lanes do not cost: the bytes are the same, however few threads ask, and matrix instructions take all."""


def moves_bytes_well(case: Case) -> bool:
    """Tell whether L2 or DRAM is well used: what keeps it so is the bytes, however many lanes ask for them."""
    return any(case.needs.get(unit, 0.0) >= WELL_USED for unit in ("dram", "l2"))


def lanes_of_block(case: Case) -> float | None:
    """Return how many lanes of a warp the threads of a block fill on average; None where its size is not known."""
    threads, warps = case.threads_per_block, case.warps_per_block
    return threads / warps if threads and warps else None


def leaves_lanes_empty(case: Case) -> bool:
    """Tell whether warps execute instructions for lanes that no thread fills."""
    return 100 * (1.0 - _filled_lanes(case)) >= EMPTY_LANES.value


def has_few_lanes(case: Case) -> bool:
    """Tell whether no warp of a block can be full: its accesses are those of a few lanes, and so are its waits."""
    threads = case.threads_per_block
    return threads is not None and threads < WARP_THREADS


def has_few_warps(case: Case) -> bool:
    """Tell whether blocks are so small that an SM full of them still has places for warps, or lanes in each of them."""
    return has_few_lanes(case) or is_held_by_blocks(case)


def _filled_lanes(case: Case) -> float:
    """Return the share of the lanes that have a thread, over the instructions that warps execute; 1 if unknown.

    Where the last warp executes less than the others, more lanes are active than a block fills on average.
    """
    by_block = lanes_of_block(case)
    if by_block is None:
        return 1.0
    return min(1.0, max(by_block, case.number(*LANES) or 0.0) / WARP_THREADS)


def _block_size(case: Case) -> Iterator[RuleVerdict]:
    threads, warps = case.threads_per_block, case.warps_per_block
    if not threads or not warps:
        return
    filled, empties, capped = _filled_lanes(case), leaves_lanes_empty(case), _more_warps_a_block_help(case)
    if not empties and not capped:
        return
    missing = _with_more_warps(case) if capped else 0.0
    relieved = {unit: filled for unit in case.needs if unit not in NOT_OF_LANES} if empties else {}
    saving = case.saving(relieved).only_if(_SAME_BYTES)
    small = threads < WARP_THREADS or capped
    yield RuleVerdict(
        headline=f"Block size: {'; '.join(_sizes(case, threads, empties=empties, capped=capped))}",
        why=" ".join(_why_size(empties=empties, capped=capped)),
        action="Use blocks of several full warps" if small else "Choose a block size that is a multiple of 32",
        advice=(
            "Merge the work of several blocks into one: 128 to 256 threads, a warp or a part of one for each piece. "
            "Where only threads of one warp share data, __syncwarp replaces __syncthreads."
            if small
            else "Choose a block size that is a multiple of 32, and let threads beyond the data do nothing, or let "
            "each block loop over its data in steps of the block size."
        ),
        confidence=_certainty(case, capped=capped),
        saving=saving.if_held(case.working_share * (1.0 - filled * (1.0 - missing)), _SAME_WARPS),
        evidence=(
            Evidence("launch__block_size", float(threads), "thread", threshold=None, meaning="threads per block"),
            *_lanes_evidence(case, filled, empties=empties),
            *_places_evidence(case, capped=capped),
        ),
        settled=moves_bytes_well(case) and not has_few_lanes(case),
    )


def _sizes(case: Case, threads: int, *, empties: bool, capped: bool) -> Iterator[str]:
    of_block, theoretical = lanes_of_block(case), case.kernel.occupancy.theoretical
    if empties and of_block is not None:
        yield f"blocks of {count_of(threads, 'thread')} fill {of_block:.3g} of 32 lanes per warp"
    if capped and theoretical is not None:
        held = blocks_at_once(case.recorded.launch.metrics, case.kernel.block, case.recorded.hardware.arch)
        blocks = "all blocks" if held is None else count_of(held, "block")
        each = count_of(case.warps_per_block or 1, "warp")
        yield f"the {blocks} of {each} that an SM takes fill {format_percent(theoretical)} of its warp slots"


def _why_size(*, empties: bool, capped: bool) -> Iterator[str]:
    if empties:
        yield "A block takes whole warps, and an instruction takes as long for a few lanes as for 32."
    if capped:
        yield "An SM holds no more blocks than that, however small they are, and nothing else limits its occupancy."


def _certainty(case: Case, *, capped: bool) -> Confidence:
    """Tell how sure it is that the empty lanes and places cost time; without any unit nothing says so."""
    if capped:
        return "inferred"
    return "measured" if case.busiest_need is not None else "guess"


def _lanes_evidence(case: Case, filled: float, *, empties: bool) -> Iterator[Evidence]:
    name = next((metric for metric in LANES if case.number(metric) is not None), None)
    if not empties:
        return
    if name is not None:
        yield from case.metric(name, "active threads per instruction", "thread")
    yield Evidence("", 100 * (1.0 - filled), "%", threshold=EMPTY_LANES.value, meaning="lanes without a thread")


def _places_evidence(case: Case, *, capped: bool) -> Iterator[Evidence]:
    theoretical = case.kernel.occupancy.theoretical
    if capped and theoretical is not None:
        yield _theoretical_evidence(theoretical, FULL.value)
        yield from case.issue_evidence(STARVED_ISSUE.value)
        yield from case.busiest_evidence("busiest unit", STARVED_ISSUE.value)


def _more_warps_a_block_help(case: Case) -> bool:
    """Tell whether the places that small blocks leave empty are missed: all others are taken, and no unit is busy.

    A queue can only be full where a unit is busy. Warp states, where they are known, must be waits that others cover.
    """
    if not is_held_by_blocks(case) or is_under_a_wave(case) or not has_room(case) or not is_taken(case):
        return False
    if case.stalls:
        return 100 * case.stall(*LATENCIES) >= COVERED.value
    return "sm" in case.utilisation and case.memory_utilisation is not None


def _with_more_warps(case: Case) -> float:
    """Return what is saved if larger blocks fill the places that registers and shared memory leave."""
    theoretical, most = case.kernel.occupancy.theoretical or 0.0, _most_by_larger_blocks(case)
    idle = 1.0 - case.issue_active if case.issue_active is not None else 1.0
    missing = min(idle, max(0.0, 1.0 - theoretical / most)) if most else 0.0
    return min(missing, case.stall_at_most(*LATENCIES))


def _most_by_larger_blocks(case: Case) -> float:
    """Return the occupancy that blocks with more warps can have, each warp with its registers and shared memory."""
    arch = case.recorded.hardware.arch
    resources = launch_resources(case.recorded.launch.metrics, case.kernel.block, arch)
    own = case.warps_per_block
    if resources is None or not own:
        return 1.0
    alone = resources.shared_bytes_per_block - resources.reserved_shared_bytes
    larger = (
        replace(
            resources,
            threads_per_block=WARP_THREADS * warps,
            shared_bytes_per_block=resources.reserved_shared_bytes + -(-alone * warps // own),
        )
        for warps in range(own, _MOST_WARPS + 1)
    )
    reached = (theoretical_occupancy(block, arch) for block in larger)
    return max((occupancy.fraction for occupancy in reached if occupancy is not None), default=1.0)


def has_short_blocks(case: Case) -> bool:
    """Tell whether an SM is so often between two blocks that its places stand empty, whatever the blocks do."""
    return case.block_cycles is not None and case.block_cycles < SHORT_BLOCK.value


def is_between_blocks(case: Case) -> bool:
    """Tell whether places stand empty because the blocks are short: as many as make a gap of occupancy."""
    achieved, theoretical = case.kernel.occupancy.achieved, case.kernel.occupancy.theoretical
    if achieved is None or theoretical is None or not has_short_blocks(case):
        return False
    return 100 * (theoretical - achieved) >= OCCUPANCY_GAP.value


class _Gap(Struct, frozen=True):
    """Places for warps that stand empty although there are blocks enough, beyond a partial last round."""

    achieved: float
    theoretical: float
    expected: float

    @property
    def empty(self) -> float:
        """The share of the places that blocks could fill and that are empty while an SM has work."""
        return 1.0 - self.achieved / self.expected

    @property
    def text(self) -> str:
        """What a headline says of it."""
        return f"{format_percent(self.achieved)} achieved occupancy, {format_percent(self.theoretical)} theoretical"


def _gap_of(case: Case) -> _Gap | None:
    """Return the gap of occupancy; None where it is small, or a small grid or a partial last round can be all of it."""
    waves, achieved = case.kernel.waves, case.kernel.occupancy.achieved
    theoretical, idle = case.kernel.occupancy.theoretical, idle_sms(case)
    if waves is None or is_under_a_wave(case) or not theoretical or achieved is None:
        # Without waves a small grid looks the same.
        return None
    if idle is not None and is_tail(waves, idle):
        return None
    expected = theoretical * (1.0 - tail_share(waves)) if has_tail(waves) else theoretical
    if 100 * (expected - achieved) < OCCUPANCY_GAP.value:
        return None
    return _Gap(achieved, theoretical, expected)


def _gap_evidence(case: Case, gap: _Gap) -> tuple[Evidence, ...]:
    cycles = case.block_cycles
    beyond = ", beyond the partial last wave" if gap.expected != gap.theoretical else ""
    return (
        *(
            (Evidence("", cycles, "cycle", threshold=SHORT_BLOCK.value, meaning="average block lifetime"),)
            if cycles is not None
            else ()
        ),
        Evidence(
            "sm__warps_active.avg.pct_of_peak_sustained_active",
            100 * gap.achieved,
            "%",
            threshold=None,
            meaning="achieved occupancy",
        ),
        _theoretical_evidence(gap.theoretical, None),
        Evidence(
            "",
            100 * (gap.expected - gap.achieved),
            "%",
            threshold=OCCUPANCY_GAP.value,
            meaning=f"points between them{beyond}",
        ),
    )


def _theoretical_evidence(theoretical: float, threshold: float | None) -> Evidence:
    return Evidence(
        "sm__maximum_warps_per_active_cycle_pct",
        100 * theoretical,
        "%",
        threshold=threshold,
        meaning="theoretical occupancy",
    )


def _short_blocks(case: Case) -> Iterator[RuleVerdict]:
    gap, cycles = _gap_of(case), case.block_cycles
    if gap is None or cycles is None or not has_short_blocks(case) or not _ends_together(case):
        return
    active = case.active_share
    saving = case.saving_of_wait(gap.empty).no_more_than(gap.empty * (active if active is not None else 1.0))
    yield RuleVerdict(
        headline=f"Short blocks: {cycles:.0f} cycles each; {gap.text}",
        why="An SM takes a few hundred cycles to replace a block that has ended, and its warp slots stay empty "
        "meanwhile: with short blocks that is much of the time."
        + (" A unit is well used all the same, so the empty slots cost little." if _is_well_used(case) else ""),
        action=MORE_WORK_A_BLOCK,
        advice="Start fewer blocks that do more: several elements per thread, or a grid-stride loop in one wave of "
        "blocks (as many as fit on the SMs at once). What a block sets up is then set up once.",
        confidence="inferred" if has_room(case) else "guess",
        saving=replace(saving, held=_SAME_WARPS),
        evidence=(*_gap_evidence(case, gap), *active_evidence(case)),
        settled=_is_well_used(case),
    )


def _is_well_used(case: Case) -> bool:
    return max(case.busiest or 0.0, case.busiest_need or 0.0) >= WELL_USED


def _imbalance(case: Case) -> Iterator[RuleVerdict]:
    alike = _are_alike(case)
    if is_under_a_wave(case):
        if not alike:
            yield from _uneven_few_blocks(case)
        return
    if case.busiest_share is None and _is_idle_late(case):
        yield _idle_on_average(case)
        return
    if case.busiest_share is None and _is_idle_by_launch(case):
        # Blocks that begin late and end early leave places of working SMs empty, too.
        yield _idle_by_launch(case)
        yield from _uneven_slices(case)
        return
    idle = idle_sms(case)
    if idle is not None and not alike and not _is_by_launch(case, idle):
        longer = format_percent(1 / (1 - idle) - 1)
        yield _imbalance_verdict(
            f"Load imbalance: the busiest SM is active {longer} longer than the average SM",
            "measured" if _is_grid_known(case) else "guess",
            case.saving({})
            .if_held(case.working_share * idle, "the same time per block")
            .only_if("the same instructions"),
            (
                *case.metric(BUSIEST_SM, "active cycles of the busiest SM", "cycle"),
                *case.metric(AVERAGE_SM, "active cycles of an average SM", "cycle"),
                Evidence("", 100 * idle, "%", threshold=IMBALANCE.value, meaning="idle share of an average SM"),
            ),
        )
        return
    if not alike:
        yield from _occupancy_gap(case)
    yield from _uneven_slices(case)


_OF_SCHEDULERS = ("smsp__inst_executed.max", "smsp__inst_executed.min")


def _are_alike(case: Case) -> bool:
    """Return whether all warps executed the same instructions, so that no block has more to do.

    Then each opcode was executed a multiple of the number of warps. That can happen with unlike warps, too: if block b
    of an odd number of blocks runs a loop b times. But then the busiest and the idlest scheduler did not execute a
    multiple of the instructions of an average warp.
    """
    warps, counts = case.warps, opcodes_of(case).values()
    executed = sum(counts)
    if not warps or not executed or any(count % warps for count in counts):
        return False
    return all((case.number(name) or 0.0) % (executed / warps) == 0 for name in _OF_SCHEDULERS)


def _is_grid_known(case: Case) -> bool:
    """Tell whether it is known that there are blocks for all SMs; a small grid leaves SMs idle, too."""
    return case.kernel.waves is not None or (case.blocks is not None and case.recorded.hardware.sm_count() is not None)


def _uneven_few_blocks(case: Case) -> Iterator[RuleVerdict]:
    """A block an SM at most, all started at once: an SM that has one is idle early only if its block was short."""
    blocks, sms, active = case.blocks, case.recorded.hardware.sm_count(), case.active_share
    duration = case.kernel.duration_s
    if not blocks or not sms or blocks > sms or active is None or duration is None:
        return
    with_work = blocks / sms
    idle = 1.0 - active / with_work
    if 100 * idle < UNEVEN_BLOCKS.value or idle * duration < SHORT.value:
        return
    yield _imbalance_verdict(
        f"Load imbalance: SMs with a block work {format_percent(1 - idle)} of the time, then wait for the slowest",
        "inferred",
        case.saving({})
        .if_held(idle - (1.0 - case.working_share), "the same speed per warp")
        .only_if("the same instructions"),
        (
            *active_evidence(case),
            Evidence("", 100 * with_work, "%", threshold=None, meaning="SMs with a block"),
            Evidence("", 100 * idle, "%", threshold=UNEVEN_BLOCKS.value, meaning="idle share of an SM with a block"),
        ),
    )


def _is_idle_late(case: Case) -> bool:
    """Tell whether an average SM is idle for longer than its launch and a partial last round take, with blocks for all.

    Where the SMs are not known, blocks for as many as any GPU of the architecture has are enough.
    """
    late, waves, most = late_share(case), case.kernel.waves, case.most_sms
    if case.kernel.duration_s is None or _is_by_launch(case, late):
        return False
    if waves is not None:
        return not has_tail(waves) or late > tail_share(waves)
    return bool(case.blocks and most and case.blocks >= most)


def _idle_on_average(case: Case) -> RuleVerdict:
    """SMs without work, and nothing tells whether some work longer than others, or all begin late."""
    late, idle = late_share(case), 1.0 - (case.active_share or 0.0)
    return RuleVerdict(
        headline=f"Idle SMs: an average SM has no work for {format_percent(idle)} of the time",
        why="Some blocks have more to do than others, the last wave is partial, or blocks begin late: which of them, "
        "the active cycles of the busiest SM tell, and those were not collected.",
        action="Make blocks equal, smaller, or a whole number of waves",
        advice="Give blocks equal work, make them smaller, or choose a whole number of waves, so that all SMs end "
        f"together. To see what it is, collect {BUSIEST_SM} and launch__waves_per_multiprocessor: a busiest SM that "
        "works all the time has longer blocks, or blocks of a partial last wave.",
        confidence="inferred",
        saving=case.saving({}).if_held(late, "the same time per block").only_if("the same instructions"),
        evidence=(
            *active_evidence(case),
            Evidence("", 100 * late, "%", threshold=IMBALANCE.value, meaning="idle beyond what a launch takes at most"),
        ),
    )


def _is_idle_by_launch(case: Case) -> bool:
    """Tell whether starting and ending the kernel is most of what an average SM is idle for, with blocks for all.

    Where the states of warps are known, they tell what else the kernel waits for. A partial last round leaves SMs
    idle, too.
    """
    waves, active = case.kernel.waves, case.active_share
    if waves is None or waves < FULL_WAVE.value or active is None or case.stalls or is_short(case):
        return False
    if has_tail(waves):
        return False
    return 100 * (1.0 - case.working_share) >= IMBALANCE.value and 1.0 - active <= 2 * (1.0 - case.working_share)


def _idle_by_launch(case: Case) -> RuleVerdict:
    """SMs without work for as long as any launch takes, in a kernel that is not much longer."""
    idle, duration = 1.0 - (case.active_share or 0.0), case.kernel.duration_s or 0.0
    return RuleVerdict(
        headline=f"Idle SMs: an average SM has no work for {format_percent(idle)} of {format_si(duration, 's')}",
        why="The kernel is so short that its start and its end are much of its time: SMs wait for their first block, "
        "and those that are through wait for the last ones.",
        action="Do more in each launch: a larger problem, or fuse or batch it with its neighbours",
        advice="Give each launch more work: a larger problem, several of them at once, or the work of its neighbours "
        "(torch.compile, one Triton kernel).",
        confidence="inferred",
        saving=case.saving({LAUNCH: 0.0}).if_held(1.0 - case.working_share, FUSED).only_if(FUSED),
        evidence=(
            *active_evidence(case),
            Evidence("", 100 * idle, "%", threshold=IMBALANCE.value, meaning="idle share of an average SM"),
        ),
    )


def _is_by_launch(case: Case, idle: float) -> bool:
    """Tell whether SMs can be idle for such a share although all blocks do the same: too short, or as blocks divide."""
    duration, waves = case.kernel.duration_s, case.kernel.waves
    if 100 * idle < IMBALANCE.value or (has_short_blocks(case) and _ends_together(case)):
        return True
    if duration is not None and idle * duration < RAMP.value:
        return True
    if waves is not None:
        return is_tail(waves, idle)
    blocks, sms = case.blocks, case.recorded.hardware.sm_count()
    rounds = blocks / sms if blocks and sms else 0.0
    return rounds > 0 and 100 * (idle - (1.0 - rounds / math.ceil(rounds))) <= TAIL_SLACK.value


def _ends_together(case: Case) -> bool:
    """Tell whether no SM works longer than the average one by more than a short block and the start of the next.

    Where it does, a few blocks are long, however short the average one is.
    """
    busiest, average = case.number(BUSIEST_SM), case.number(AVERAGE_SM)
    return busiest is None or average is None or busiest - average <= 2 * SHORT_BLOCK.value


def _occupancy_gap(case: Case) -> Iterator[RuleVerdict]:
    """Fewer warps than fit although blocks are long: warps of a block, or blocks, end at different times."""
    gap = _gap_of(case)
    if gap is None or has_short_blocks(case) or far_memory(case) is not None:
        return
    yield _imbalance_verdict(
        f"Load imbalance: {gap.text}",
        "guess",
        replace(case.saving_of_wait(gap.empty), held=_SAME_WARPS),
        _gap_evidence(case, gap),
        settled=(case.busiest or 0.0) >= WELL_USED,
    )


def _uneven_slices(case: Case) -> Iterator[RuleVerdict]:
    busiest, average = case.number(_BUSIEST_SLICE), case.number(_AVERAGE_SLICE)
    if not busiest or not average or 100 * (busiest / average - 1) < SLICES.value:
        return
    l2 = case.utilisation.get("l2")
    is_busy = l2 is not None and 100 * l2 * busiest / average >= SLICE_BUSY.value
    yield RuleVerdict(
        headline=f"L2 slice imbalance: the busiest is active {format_percent(busiest / average - 1)} longer than the "
        "average",
        why="Addresses map to the slices of L2 by a fixed hash; an access pattern with a large stride favours some.",
        action="Change the row stride so that blocks start on different slices",
        advice="Change the row stride (pad the leading dimension) so that blocks start on different slices.",
        confidence="inferred" if is_busy else "guess",
        saving=case.saving({"l2": average / busiest})
        .if_held(min(l2 * busiest / average, 1.0 - average / busiest), "the same accesses")
        .only_if("the same accesses")
        if l2 is not None
        else None,
        evidence=(
            *case.metric(_BUSIEST_SLICE, "active cycles of the busiest slice", "cycle"),
            *case.metric(_AVERAGE_SLICE, "active cycles of an average slice", "cycle"),
            Evidence("", 100 * (busiest / average - 1), "%", threshold=SLICES.value, meaning="busiest above average"),
            *((Evidence("", 100 * l2, "%", threshold=None, meaning="L2 busy"),) if l2 is not None else ()),
        ),
    )


def _imbalance_verdict(
    headline: str, confidence: Confidence, saving: Saving, evidence: tuple[Evidence, ...], *, settled: bool = False
) -> RuleVerdict:
    return RuleVerdict(
        headline=headline,
        why="Some blocks or warps have more to do than others, and those that finish leave their slots empty.",
        action="Balance the blocks: sort work by length, split the longest or use a work queue",
        advice="Give blocks equal work: sort or bin rows by length, take work from a shared counter (persistent "
        "blocks), or split the longest pieces. Smaller blocks free their slots sooner.",
        confidence=confidence,
        saving=saving,
        evidence=evidence,
        settled=settled,
    )


RULES = (
    Rule(
        "block-size",
        "Blocks leave lanes or warp slots empty",
        about="defect",
        looks_at="Threads per block against whole warps, and active threads per instruction where collected: they are "
        "more than a block fills on average where its last warp does less. Theoretical occupancy where only the "
        "number of blocks that an SM takes limits it, as with blocks of one warp; that counts where the grid fills a "
        "wave, the existing slots are taken, issue slots and units are idle, and most warps, where their states are "
        "known, stall on a latency. It is a guess where no unit was collected, and a fact (`info`) where DRAM or L2 "
        "is 80 % busy and a warp can be full: they move the same bytes for any such block.",
        thresholds=(EMPTY_LANES, STARVED_ISSUE, TAKEN, COVERED),
        gain="min((1 − filled lanes × (1 − missing warps)) × working time, 1 − largest need that remains). Filled are "
        "threads ÷ (32 × warps of the block), or active threads ÷ 32 where those are more; issue slots, pipes and L1 "
        "then need that part of what they do, DRAM, L2 and the tensor pipe what they did. Missing are 1 − theoretical "
        "occupancy ÷ that of larger blocks with as many registers and as much shared memory per warp, no more than the "
        "share of warps stalled on a latency. The first holds with the same speed per warp, the second with the same "
        "bytes.",
        silent="Under 3 % of the lanes are empty, and the limit on blocks per SM costs nothing.",
        check=_block_size,
        outlasts=leaves_lanes_empty,
        metrics=(LANES[0],),
        place=TreePlace((), "warps"),
    ),
    Rule(
        "short-blocks",
        "Warp slots are empty between short blocks",
        about="defect",
        looks_at="Block lifetime: active cycles of an SM × blocks that it holds (by achieved occupancy) ÷ blocks that "
        "it runs, or where the SMs are not known × achieved ÷ theoretical occupancy ÷ waves; and achieved against "
        "theoretical occupancy. It is a guess unless issue slots and units are under 60 % busy, and a fact (`info`) "
        "where one is 80 % busy.",
        thresholds=(SHORT_BLOCK, OCCUPANCY_GAP, STARVED_ISSUE),
        gain="min(least × working time, 1 − largest need of a unit), where least is the lesser of 1 − achieved ÷ "
        "theoretical occupancy and 1 − issue slots used, with the same speed per warp: the share of the time that "
        "slots are empty. A partial last wave counts as occupancy that cannot be had. What each block sets up anew is "
        "not counted: fewer blocks can save more.",
        silent="Under one wave, blocks live for 2 000 cycles or more on average, some SM works for much longer than "
        "the others (`load-imbalance`), or the gap is smaller or that of a partial last wave.",
        check=_short_blocks,
        metrics=(AVERAGE_SM,),
        place=TreePlace((), "warps"),
    ),
    Rule(
        "load-imbalance",
        "Load imbalance",
        about="defect",
        looks_at="Active cycles of the busiest against the average SM; where only the average was collected, those "
        "against elapsed cycles, less the 3 µs that a launch takes at most: the cause is then open. Where those are "
        "most of what it is idle for, a tenth of the time, and no warp states are known, the launch has too little "
        "work, unless a partial last wave can be it. Else achieved against theoretical occupancy; active cycles of "
        "the L2 slices. Between blocks that live for under 2 000 cycles slots are empty without any imbalance "
        "(`short-blocks`), and so may an SM be, for up to two such blocks. Of slices that hardly work it is a guess "
        "that they hold anything up. Where neither waves nor grid are known, idle SMs are a guess: the grid can be "
        "small.",
        thresholds=(IMBALANCE, RAMP, UNEVEN_BLOCKS, SHORT_BLOCK, TAIL_SLACK, OCCUPANCY_GAP, SLICES, SLICE_BUSY),
        gain="For SMs min((1 − average ÷ busiest SM) × working time, 1 − largest need of a unit), with the same time "
        "per block; where only the average SM is known, its idle time beyond the launch instead, or that of the "
        "launch, with the same work in another one. For occupancy 1 − achieved ÷ theoretical and 1 − issue slots used, "
        "likewise, with the same speed per warp. For slices min(the busiest slice's busy fraction, 1 − average ÷ "
        "busiest slice, 1 − largest need that remains), with the same accesses.",
        silent="All warps executed the same instructions, by the counts of each opcode and of the busiest and the "
        "idlest scheduler: no block has more to do. Under one wave (`small-grid` covers that) except with one block "
        "per SM, most of which end in half the time; or the gaps are smaller, or a partial last wave (`tail-effect`) "
        "or short blocks explain them.",
        check=_imbalance,
        metrics=(BUSIEST_SM, AVERAGE_SM, _BUSIEST_SLICE, _AVERAGE_SLICE),
        place=TreePlace((), "warps"),
    ),
)
