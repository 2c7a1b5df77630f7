"""Rules on how a kernel fills the GPU: grid, waves, occupancy and length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.diagnose.case import Case
from gpuprof.diagnose.dram_latency import IDLE, QUEUED, queues_at_dram
from gpuprof.diagnose.needs import ISSUE, LAUNCH, LAUNCH_MOST_S, SM, WORK, beside_launch
from gpuprof.diagnose.rule import AT_KERNEL, Cause, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.headline import limited_by
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent, format_si

FULL_WAVE = Threshold(
    "waves", 1.0, "wave", reason="under one wave some of the slots for blocks stay empty from the start"
)
HALF_WAVE = Threshold(
    "waves",
    0.5,
    "wave",
    reason="under half a wave most of the GPU is empty, whatever else the report tells; from here on idle units decide",
)
STARVED_ISSUE = percent(
    "issue slots and busiest unit",
    60.0,
    "above it more warps find little room; below it the finding is more than a guess",
)
COVERED = percent(
    "warps stalled on a latency",
    50.0,
    "more warps hide latencies, not full queues or pipes: latencies have to be most of what warps wait for",
)
TAKEN = percent(
    "achieved of theoretical occupancy", 80.0, "where a fifth of the slots stays empty more of them are of no use"
)
FEW_WARPS = percent(
    "theoretical occupancy", 25.0, "so few warps come from large tiles: smaller ones give more blocks and more warps"
)
FEWEST_SMS = Threshold("blocks", 4.0, "block", reason="no GPU since Volta has fewer SMs (Orin Nano 4GB has 4)")
TAIL_SHARE = percent("share of the last wave", 20.0, "NVIDIA's rule reports a tail from one fifth of the time on")
TAIL_SLACK = percent(
    "idle share against the tail's", 5.0, "points that ramps add; else work may be spread unevenly, too"
)
FULL = percent(
    "theoretical occupancy", 100.0, "anything less has a limiter worth knowing; `info` where it costs nothing"
)
SHORT = Threshold(
    "duration", 5e-6, "s", reason="about what launching a kernel costs; caches and clocks are not warm yet either"
)

NOTHING = Threshold(
    "duration of little work",
    3e-6,
    "s",
    reason="102 launches of an empty kernel took 2.1 to 2.2 µs on an H100: a third of so short a time is work at most",
)
LAUNCH_ALONE = percent(
    "time in which no SM works", 50.0, "most of the time is then the launch's, which no other grid makes shorter"
)

SHORT_KERNEL = "short-kernel"
FUSED = "the same work in another launch"
_WAVES = "launch__waves_per_multiprocessor"
BUSIEST_SM, AVERAGE_SM = "sm__cycles_active.max", "sm__cycles_active.avg"
FULL_OF = 0.9999
"""What is above it differs from all by rounding."""
_LEAST_WAVES = 0.01
"""Text exports round waves to two digits."""


_PART_OF_GPU = "Only a part of the GPU has blocks; the rest is idle until the kernel ends."
_FEWER_WARPS = "Every SM has a block, but room for more: it has fewer warps to switch to than it could have."
_START_MORE = "Start more blocks: smaller tiles, split reduction, several problems per launch"
_MORE_BLOCKS = (
    "Start more blocks: smaller blocks or tiles, split the reduction dimension (split-K), batch several problems in "
    "one launch, or let other kernels run beside it (streams, CUDA graph). If the problem is this small, fuse it with "
    "its neighbours."
)


def _small_grid(case: Case) -> Iterator[RuleVerdict]:
    blocks, sms, waves = case.blocks, case.recorded.hardware.sm_count(), case.kernel.waves
    if blocks is None:
        return
    if sms is None and waves is None:
        yield from _few_blocks(case, blocks)
        return
    empty = _empty_places(case, waves) if waves is not None else _of_sms(0.0)
    confidence: Confidence = "measured"
    without_work = 0.0
    if sms is not None and blocks < sms:
        text = f"{count_of(blocks, 'block')} for {sms} SMs{_filled_text(case)}"
        without_work = 1.0 - blocks / sms
    elif waves is not None and waves < FULL_WAVE.value:
        if waves >= HALF_WAVE.value:
            confidence = "inferred" if has_room(case) else "guess"
        on = f" on {count_of(sms, 'SM')}" if sms is not None else ""
        part = format_percent(waves) if waves >= _LEAST_WAVES else f"under {format_percent(_LEAST_WAVES)}"
        text = f"{count_of(blocks, 'block')} {_fill(blocks)} {part} of one wave{on}"
    else:
        return
    yield replace(
        _grid_verdict(
            case,
            text,
            confidence,
            empty if empty.share >= without_work else _of_sms(without_work),
            (_blocks_evidence(blocks, sms), *case.metric(_WAVES, "waves", "wave", FULL_WAVE.value)),
        ),
        why=_FEWER_WARPS if sms is not None and blocks >= sms else _PART_OF_GPU,
    )


def _few_blocks(case: Case, blocks: int) -> Iterator[RuleVerdict]:
    """Where neither waves nor SMs are known: judge fewer blocks than a GPU has SMs."""
    seen = _sms_by_idle(case, blocks)
    if seen is not None:
        text = f"{count_of(blocks, 'block')} for about {seen.sms} SMs"
        evidence = (_blocks_evidence(blocks, seen.sms), *active_evidence(case))
        yield _grid_verdict(case, text, seen.confidence, _of_sms(1.0 - blocks / seen.sms), evidence)
        return
    known = case.recorded.hardware.fewest_sms()
    fewest = known if known is not None else round(FEWEST_SMS.value)
    if blocks >= fewest:
        return
    capability = case.recorded.hardware.arch.name.removeprefix("sm_")
    is_sure = blocks < FEWEST_SMS.value
    beside = (
        ", fewer than any GPU has SMs"
        if is_sure
        else f"; GPUs of compute capability {capability[:-1]}.{capability[-1]} with a spec have {fewest} SMs or more"
    )
    text, without_work = f"{count_of(blocks, 'block')}{beside}", _of_sms(1.0 - blocks / fewest)
    evidence = (_blocks_evidence(blocks, fewest),)
    yield _grid_verdict(case, text, "inferred" if is_sure else "guess", without_work, evidence)


class _Sms(NamedTuple):
    """How many SMs there seem to be, and how sure that is."""

    sms: int
    confidence: Confidence


def _sms_by_idle(case: Case, blocks: int) -> _Sms | None:
    """Return the number of SMs by the share of the time in which an average one has work; None where it tells none.

    If no SM has more than one block it is blocks ÷ that share, or less where blocks end early. What a launch takes
    can leave SMs without work for that long, too: then nothing follows, as where no GPU has so many.
    """
    active, duration = case.active_share, case.kernel.duration_s
    if not active or not duration or 100 * (1.0 - active - LAUNCH_MOST_S / duration) < TAIL_SHARE.value:
        return None
    counts = [count for gpu in case.recorded.hardware.siblings() if (count := gpu.number("sm_count"))]
    sms = blocks / active
    nearest = min(counts, key=lambda count: abs(count - sms), default=0.0)
    if blocks < nearest and 100 * abs(sms / nearest - 1.0) <= TAIL_SLACK.value:
        return _Sms(round(nearest), "inferred")
    return _Sms(round(sms), "guess") if sms < max(counts, default=0.0) else None


class _Empty(NamedTuple):
    """The part of the GPU without work, and what is as fast as now when it has some."""

    share: float
    held: str


def _of_places(share: float) -> _Empty:
    return _Empty(share, "the same speed per warp")


def _of_sms(share: float) -> _Empty:
    return _Empty(share, "the same speed per SM")


def _grid_verdict(
    case: Case, text: str, confidence: Confidence, empty: _Empty, evidence: tuple[Evidence, ...]
) -> RuleVerdict:
    return RuleVerdict(
        headline=f"Small grid: {text}",
        why=_PART_OF_GPU,
        action=_START_MORE,
        advice=_MORE_BLOCKS,
        confidence=confidence,
        # More blocks mostly divide the work in another way, which changes the accesses: no bound follows from theirs.
        saving=case.saving({})
        .if_held(case.working_share * empty.share, empty.held)
        .only_if("the same instructions and accesses"),
        evidence=evidence,
    )


def _blocks_evidence(blocks: int, sms: int | None) -> Evidence:
    threshold = float(sms) if sms else None
    return Evidence("launch__grid_size", float(blocks), "block", threshold=threshold, meaning="blocks, against SMs")


def _fill(blocks: int) -> str:
    return "fills" if blocks == 1 else "fill"


def _empty_places(case: Case, waves: float) -> _Empty:
    """Return the empty part of the places for blocks; of those for warps, where large tiles leave a quarter or less.

    Smaller tiles then mend both, the few blocks and the few warps of each SM. How far that helps depends on what the
    SMs can take, so it counts only where counters tell how busy they are.
    """
    theoretical = case.kernel.occupancy.theoretical
    if theoretical is None or theoretical > FEW_WARPS.value / 100 or not _is_counted(case):
        return _of_places(1.0 - waves)
    return _Empty(1.0 - waves * theoretical, "the same speed per warp in smaller tiles")


def _is_counted(case: Case) -> bool:
    """Tell whether counters say how busy a unit is: a launch alone does not tell how many blocks its work takes."""
    return any(unit not in (LAUNCH, WORK) for unit in case.needs)


def _filled_text(case: Case) -> str:
    """Say how few warps there are in all, where that is known."""
    waves, theoretical = case.kernel.waves, case.kernel.occupancy.theoretical
    if waves is None or theoretical is None or waves < _LEAST_WAVES:
        return ""
    return f"; {format_percent(waves * theoretical)} of warp slots filled"


def count_of(number: int, noun: str) -> str:
    """Write a number of things: "1 block", "2 000 blocks"."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}".replace(",", "\u202f")


def _tail(case: Case) -> Iterator[RuleVerdict]:
    waves = case.kernel.waves
    if waves is None or not has_tail(waves):
        return
    rounds = math.ceil(waves - 1e-6)
    partial = waves - (rounds - 1)
    filled, seen = _filled_share(case), idle_sms(case)
    # What an average SM is idle for can be the tail itself: only the busiest one tells the launch's part.
    working = case.working_share if case.busiest_share is not None else 1.0
    empty = min(case.working_share * tail_share(waves), working - filled if filled is not None else 1.0)
    yield RuleVerdict(
        headline=(f"Tail effect: {waves:.3g} waves; the last of {rounds} fills {format_percent(partial)} of the GPU"),
        why="Blocks run in waves of as many as fit at once. The last, partial wave can take as long as a full one.",
        action="Make the grid a whole number of waves, or loop over the work in a single wave",
        advice=(
            "Choose the number of blocks as a multiple of what fits at once (blocks per SM × SMs), loop over the rest "
            "in a persistent or grid-stride kernel, use smaller blocks, or use fewer registers and less shared memory "
            "so that the blocks fit in one fewer wave."
        ),
        confidence="measured" if seen is not None and is_tail(waves, seen) else "inferred",
        saving=case.saving({}).if_held(empty, "the same time per block").only_if("the same instructions"),
        evidence=(
            *case.metric(_WAVES, "waves", "wave"),
            Evidence(
                "",
                100 / rounds,
                "%",
                threshold=TAIL_SHARE.value,
                meaning="share of the time that the last wave can take",
            ),
            *active_evidence(case),
        ),
    )


def has_tail(waves: float) -> bool:
    """Tell whether the last round of blocks is partial and a fifth of the time or more."""
    rounds = math.ceil(waves - 1e-6)
    return waves > 1 and rounds - waves >= 1e-6 and 100 / rounds >= TAIL_SHARE.value


def tail_share(waves: float) -> float:
    """Return the empty part of the last round, of the time of all rounds."""
    return 1.0 - waves / math.ceil(waves - 1e-6)


def _last_round_is_shorter(*units: str) -> Callable[[Case], bool]:
    """Return what tells that the last round cannot take as long as a full one: a unit was busy for more than that.

    It works for full rounds and a part of the last one at most. What it needs beyond that it had in less time, so that
    it holds up blocks while all of them run, and the few of the last round run faster.
    """

    def tells(case: Case) -> bool:
        waves, need = case.kernel.waves, max((case.needs.get(unit, 0.0) for unit in units), default=0.0)
        return waves is not None and need > 1.0 - tail_share(waves)

    return tells


_OF_SM = (SM, ISSUE)
"""What limits on the instructions of an SM speak of, beside their pipe: its busiest part, and its issue slots."""
_LIMITS = {
    "dram-bandwidth": ("dram",), "l2-bandwidth": ("l2",), "l1-bandwidth": ("l1",),
    "fp32-compute-bound": ("fma", *_OF_SM), "tensor-compute-bound": ("tensor", *_OF_SM),
    "integer-bound": ("alu", *_OF_SM), "special-function-bound": ("xu", *_OF_SM), "fp64-bound": ("fp64", *_OF_SM),
}  # fmt: skip


def is_tail(waves: float, idle: float) -> bool:
    """Tell whether SMs that are idle for this share of the time are so because the last round is partial: just as long.

    Less is possible, too, where an SM holds several blocks; but then a long block would look the same.
    """
    return has_tail(waves) and 100 * abs(idle - tail_share(waves)) <= TAIL_SLACK.value


def idle_sms(case: Case) -> float | None:
    """Return the idle share of an average SM, while the busiest works; None where the two cannot be of one kernel."""
    busiest, average = case.number(BUSIEST_SM), case.number(AVERAGE_SM)
    if not busiest or not average:
        return None
    idle = 1.0 - average / busiest
    return idle if idle < 1.0 else None


def _filled_share(case: Case) -> float | None:
    """Return which share of the places for warps was filled over the kernel; of the SMs, where that is all there is.

    An SM with one block of the last round has work, and most of its places are empty.
    """
    active = case.active_share
    theoretical, achieved = case.kernel.occupancy.theoretical, case.kernel.occupancy.achieved
    if active is None or not theoretical or achieved is None:
        return active
    return active * min(1.0, achieved / theoretical)


def active_evidence(case: Case) -> tuple[Evidence, ...]:
    """Return the share of the time in which an average SM had work as evidence."""
    active = case.active_share
    if active is None:
        return ()
    return (Evidence(AVERAGE_SM, 100 * active, "%", threshold=None, meaning="SMs with work, of elapsed cycles"),)


def is_under_a_wave(case: Case) -> bool:
    """Tell whether SMs are idle because there are no blocks for them."""
    waves, blocks, sms = case.kernel.waves, case.blocks, case.recorded.hardware.sm_count()
    if waves is not None:
        return waves < FULL_WAVE.value
    return blocks is not None and sms is not None and blocks < sms


def is_held_by_blocks(case: Case) -> bool:
    """Tell whether nothing but the number of blocks that an SM takes limits its warps."""
    occupancy = case.kernel.occupancy
    return occupancy.limiters == ("blocks",) and occupancy.theoretical is not None and occupancy.theoretical < FULL_OF


LIMITER_ACTION = {
    "registers": "use fewer registers per thread",
    "shared memory": "use less shared memory per block",
    "carve-out": "give more of L1 to shared memory (carve-out)",
    "block size": "choose a block size that divides the SM's warp slots",
    "blocks": "use larger blocks",
    "warps": "choose a block size that divides the SM's warp slots",
}
LIMITER_ADVICE = {
    "registers": "use fewer registers per thread (__launch_bounds__, -maxrregcount, a smaller tile or num_stages)",
    "shared memory": "use less shared memory per block (a smaller tile, fewer pipeline stages, a narrower type)",
    "carve-out": "ask for a larger carve-out (cudaFuncSetAttribute, cudaFuncAttributePreferredSharedMemoryCarveout)",
    "block size": "choose a block size that divides the SM's warp slots",
    "blocks": "use larger blocks: an SM takes no more of these",
    "warps": "choose a block size that divides the SM's warp slots",
}


def _occupancy(case: Case) -> Iterator[RuleVerdict]:
    occupancy = case.kernel.occupancy
    theoretical, limiters = occupancy.theoretical, occupancy.limiters
    if theoretical is None or theoretical >= FULL_OF or not limiters:
        return
    starved, helps, queued = is_under_a_wave(case), _more_warps_help(case), queues_at_dram(case)
    waits = 0.0 if starved or queued else case.stall_at_most(*LATENCIES)
    missing = case.saving_of_wait(min(1.0 - theoretical, waits))
    registers, shared = case.kernel.registers_per_thread, case.kernel.shared_memory_per_block
    yield RuleVerdict(
        headline=f"Occupancy: {format_percent(theoretical)} theoretical, {limited_by(occupancy)}",
        why=(
            "The grid does not even fill these slots, so the limit costs nothing here."
            if starved
            else "Loads wait for so long that DRAM queues them: more warps only make the queue longer."
            if queued
            else "A scheduler with fewer warps has less to switch to. Warps stall mostly on latencies that others "
            "could hide, issue slots are idle and no unit is full."
            if helps
            else "Low occupancy costs time where warps stall on latencies that others could hide while issue slots are "
            "idle and no unit is full; the report does not show that."
        ),
        action=f"Raise occupancy: {LIMITER_ACTION.get(limiters[0], limiters[0])}",
        advice=(
            f"To raise it, {'; '.join(LIMITER_ADVICE.get(name, name) for name in limiters)}. More work in flight "
            "per thread (unrolling, loads ahead of their use) hides the same latency without more warps."
        ),
        confidence="inferred" if helps else "guess",
        saving=replace(missing, held="the same speed per warp"),
        settled=not helps,
        evidence=(
            Evidence(
                "sm__maximum_warps_per_active_cycle_pct",
                100 * theoretical,
                "%",
                threshold=FULL.value,
                meaning="theoretical occupancy",
            ),
            *(
                (
                    Evidence(
                        "launch__registers_per_thread",
                        float(registers),
                        "register",
                        threshold=None,
                        meaning="registers per thread",
                    ),
                )
                if registers is not None
                else ()
            ),
            *(
                (
                    Evidence(
                        "launch__shared_mem_per_block",
                        float(shared),
                        "B",
                        threshold=None,
                        meaning="shared memory per block",
                    ),
                )
                if shared
                else ()
            ),
            *case.issue_evidence(None),
        ),
    )


LATENCIES = ("long_scoreboard", "short_scoreboard", "wait", "barrier", "branch_resolving", "membar", "gmma")
"""What warps wait for while others could run; in the other states a queue or a pipe is full, and more warps wait."""


def _more_warps_help(case: Case) -> bool:
    """Tell whether more warps would find room and cover what these wait for, and whether all that fit are there."""
    if is_under_a_wave(case) or not has_room(case) or queues_at_dram(case):
        return False
    return is_taken(case) and _waits_for_latency(case)


def is_taken(case: Case) -> bool:
    """Tell whether the existing places for warps are taken."""
    occupancy = case.kernel.occupancy
    if occupancy.achieved is not None and occupancy.theoretical:
        return 100 * occupancy.achieved / occupancy.theoretical >= TAKEN.value
    return case.kernel.waves is not None


def _waits_for_latency(case: Case) -> bool:
    """Tell whether most warps wait for what others cover; without warp states, whether no unit is there to wait for."""
    if case.stalls:
        return 100 * case.stall(*LATENCIES) >= COVERED.value
    eligible = case.kernel.scheduler.eligible_warps if case.kernel.scheduler is not None else None
    return eligible is not None and "sm" in case.utilisation and case.memory_utilisation is not None


def has_room(case: Case) -> bool:
    """Tell whether more warps would find idle issue slots: few of them used, hardly a warp eligible, no unit busy.

    The SM is at least as busy as its issue slots.
    """
    eligible = case.kernel.scheduler.eligible_warps if case.kernel.scheduler is not None else None
    issued = case.issue_active if case.issue_active is not None else case.utilisation.get("sm")
    return (
        issued is not None
        and issued < STARVED_ISSUE.value / 100
        and (eligible is None or eligible < 1.0)
        and case.busiest is not None
        and max(case.busiest, case.busiest_need or 0.0) < STARVED_ISSUE.value / 100
    )


def is_short(case: Case) -> bool:
    """Tell whether the launch takes about as long as the kernel: nothing in the kernel is then sure to gain."""
    return case.kernel.duration_s is not None and case.kernel.duration_s < SHORT.value


def _short(case: Case) -> Iterator[RuleVerdict]:
    duration = case.kernel.duration_s
    if duration is None or not is_short(case):
        return
    yield RuleVerdict(
        headline=f"Short kernel: {format_si(duration, 's')}, {beside_launch(duration)}",
        why="Launch, cold caches and drain take microseconds, whatever the kernel computes.",
        action="Fuse or batch it with its neighbours",
        advice=(
            "Fuse it with its neighbours (torch.compile, one Triton kernel), or batch several calls into one. Where "
            "they do not run in a CUDA graph yet, one shortens the gaps between them, but hardly the kernels. Counters "
            "of so short a kernel are uncertain."
        ),
        confidence="measured",
        saving=case.saving({LAUNCH: 0.0}).if_held(1.0 - case.working_share, FUSED).only_if(FUSED),
        evidence=(
            Evidence("gpu__time_duration.sum", duration, "s", threshold=SHORT.value, meaning="duration"),
            *case.metric(BUSIEST_SM, "active cycles of the busiest SM", "cycle"),
            *case.metric("sm__cycles_elapsed.max", "elapsed cycles", "cycle"),
        ),
    )


def _is_about_a_launch(case: Case) -> bool:
    """Tell whether a kernel takes little more than one that does nothing, whatever its grid."""
    duration = case.kernel.duration_s
    return duration is not None and (duration < NOTHING.value or 100 * case.needs.get(LAUNCH, 0.0) > LAUNCH_ALONE.value)


RULES = (
    Rule(
        "small-grid",
        "The grid does not fill the GPU",
        about="defect",
        looks_at="Blocks against SMs, and waves; where neither is known, blocks ÷ the share of the time in which an "
        "average SM has work, which is the number of SMs if each has a block at most (inferred where a GPU of"
        " the architecture has so many, else a guess), or fewer than 4 blocks, because no GPU since Volta has"
        " fewer SMs. Launch data alone make it certain, except from half a wave on with a block for every SM:"
        " there it is inferred where issue slots and units are idle, else a guess.",
        thresholds=(FULL_WAVE, HALF_WAVE, FEW_WARPS, STARVED_ISSUE, NOTHING, LAUNCH_ALONE, TAIL_SHARE, TAIL_SLACK),
        gain="min(1 − largest need of a unit, empty × working time), where empty is the larger of 1 − blocks ÷ SMs, "
        "with the same speed per SM, and 1 − waves, with the same speed per warp. Where theoretical occupancy is a "
        "quarter or less and counters tell how busy the SMs are, it is 1 − waves × theoretical occupancy: smaller "
        "tiles fix both. Needs are averages over all SMs: more blocks leave them as they are with the same "
        "instructions and accesses.",
        silent="At least one full wave.",
        check=_small_grid,
        metrics=(_WAVES,),
        by_times=True,
        causes=(Cause(SHORT_KERNEL, _is_about_a_launch),),
        place=TreePlace((), "warps"),
    ),
    Rule(
        "tail-effect",
        "The last wave of blocks is partial",
        about="defect",
        looks_at="Waves, and where collected the share of time in which SMs had work and their warp slots were filled. "
        "It is measured where the average SM is idle for as long as the last wave tells, beside the busiest one.",
        thresholds=(TAIL_SHARE, TAIL_SLACK),
        gain="min((1 − waves ÷ rounds) × working time, empty, 1 − largest need of a unit), with the same time per "
        "block: the empty part of the last wave; rounds are the waves rounded up. Empty are the warp slots that were "
        "not filled: working time − share of the time in which SMs had work × achieved ÷ theoretical occupancy "
        "(without occupancy, of the SMs; 1 instead of the working time where the busiest SM is not known). Where a "
        "unit is busy for more than waves ÷ rounds of the time, the last wave cannot take as long as a full one: the "
        "limit that this unit is explains the tail.",
        silent="One wave or less, five waves or more, or a whole number of them.",
        check=_tail,
        metrics=(_WAVES,),
        causes=tuple(Cause(rule, _last_round_is_shorter(*units)) for rule, units in _LIMITS.items()),
        place=TreePlace((), "warps"),
    ),
    Rule(
        "low-occupancy",
        "Theoretical occupancy is limited",
        about="defect",
        looks_at="Theoretical occupancy and what limits it: registers, shared memory, block size or the number of "
        "blocks.",
        thresholds=(FULL, STARVED_ISSUE, COVERED, TAKEN, QUEUED, IDLE),
        gain="min(least × working time, 1 − largest need of a unit), where least is the least of 1 − theoretical "
        "occupancy, the share of warps stalled on a latency and 1 − issue slots used, with the same speed per warp; 0 "
        "where the grid is under one wave, or loads wait so long that a DRAM that is not idle queues them. It is a "
        "fact (`info`) unless more warps help: issue slots and units are "
        "idle, the existing slots are taken, and most warps stall on a latency (Long and Short Scoreboard, Wait, "
        "Barrier, Branch Resolving, Membar, GMMA). Without warp states, SM, memory and schedulers that are all idle "
        "tell so, because a full queue needs a busy unit.",
        silent="100 % theoretical occupancy: nothing limits it then.",
        check=_occupancy,
        causes=(Cause("block-size", is_held_by_blocks),),
        place=TreePlace((), "warps"),
    ),
    Rule(
        SHORT_KERNEL,
        "The kernel is as short as its launch",
        about="limit",
        looks_at="Duration.",
        thresholds=(SHORT,),
        gain="1 − working time, with the same work in another launch: about what fusing it saves of this kernel, as it "
        "was timed. ncu runs kernels one by one; else the next one can start while this one ends. That fusing also "
        "saves the time between kernels is not counted.",
        silent="5 µs or longer.",
        check=_short,
        by_times=True,
        place=AT_KERNEL,
    ),
)
