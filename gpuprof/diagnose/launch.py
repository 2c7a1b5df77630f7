"""Rules on how a kernel fills the GPU: grid, waves, occupancy, balance and length."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from gpuprof.diagnose.case import WELL_USED, Case
from gpuprof.diagnose.needs import LAUNCH_S, Saving, beside_launch
from gpuprof.diagnose.rule import AT_KERNEL, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.headline import limited_by
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent, format_si

FULL_WAVE = Threshold(
    "waves", 1.0, "wave", reason="under one wave some of the places for blocks stay empty from the start"
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
    "warps that wait for a latency",
    50.0,
    "more warps cover latencies and no full queue or pipe: those have to be most of what warps wait for",
)
TAKEN = percent(
    "achieved of theoretical occupancy", 80.0, "where a fifth of the places stays empty more of them are of no use"
)
FEW_WARPS = percent(
    "theoretical occupancy", 25.0, "so few warps come from large tiles: smaller ones give more blocks and more warps"
)
FEWEST_SMS = Threshold("blocks", 4.0, "block", reason="no GPU since Volta has fewer SMs (Orin Nano 4GB has 4)")
TAIL_SHARE = percent("share of the last wave", 20.0, "NVIDIA's rule speaks of a tail from one fifth of the time on")
OCCUPANCY_GAP = percent("achieved below theoretical", 10.0, "points of occupancy; NVIDIA's rule uses the same")
IMBALANCE = percent("idle share of the SMs", 10.0, "less is the ramp at the start and the end of a kernel")
RAMP = Threshold(
    "idle time of an average SM", LAUNCH_S, "s", reason="to start the first and to end the last blocks takes so long"
)
UNEVEN_BLOCKS = percent(
    "idle share of the SMs that have one block",
    50.0,
    "launching takes microseconds of it, and the way to memory differs between SMs: most of the time is neither",
)
SHORT_BLOCK = Threshold(
    "life of a block",
    2000.0,
    "cycle",
    reason="between two blocks a place stood empty for 347 to 364 cycles in recorded reports: a seventh of the time, "
    "or more with shorter blocks, even if all do the same",
)
TAIL_SLACK = percent(
    "idle share against the tail's", 5.0, "points that ramps add; else work may be spread unevenly, too"
)
SLICES = percent("busiest L2 slice above average", 5.0, "the least that NVIDIA's rule reported")
FULL = percent(
    "theoretical occupancy", 100.0, "anything less has a limiter worth knowing; `info` where it costs nothing"
)
SHORT = Threshold(
    "duration", 5e-6, "s", reason="about what launching a kernel costs; caches and clocks are not warm yet either"
)

_WAVES = "launch__waves_per_multiprocessor"
_BUSIEST_SM, _AVERAGE_SM = "sm__cycles_active.max", "sm__cycles_active.avg"
_BUSIEST_SLICE, _AVERAGE_SLICE = "lts__cycles_active.max", "lts__cycles_active.avg"
_LEAST_WAVES = 0.01
"""Text exports round waves to two digits."""


_START_MORE = "Start more blocks: smaller tiles, a split reduction, or several problems in one launch"
_MORE_BLOCKS = (
    "Start more blocks: smaller blocks or tiles, split the reduction dimension (split-K), several problems in one "
    "launch (batch), or let other kernels run beside it (streams, CUDA graph). If the problem is this small, fuse "
    "it with its neighbours."
)


def _small_grid(case: Case) -> Iterator[RuleVerdict]:
    blocks, sms, waves = case.blocks, case.recorded.hardware.sm_count(), case.kernel.waves
    if blocks is None:
        return
    if sms is None and waves is None:
        yield from _few_blocks(blocks)
        return
    filled = waves * _places_by_tile(case) if waves is not None else None
    empty = 1.0 - filled if filled is not None else 0.0
    confidence: Confidence = "measured"
    if sms is not None and blocks < sms:
        headline = (
            f"Small grid: {_count(blocks, 'block')} on {sms} SMs, so {_count(sms - blocks, 'SM')} "
            f"{'has' if sms - blocks == 1 else 'have'} no work{_filled_text(case)}"
        )
        without_work = 1.0 - blocks / sms
    elif waves is not None and waves < FULL_WAVE.value:
        if waves >= HALF_WAVE.value:
            confidence = "inferred" if _has_room(case) else "guess"
        on = f" on {_count(sms, 'SM')}" if sms is not None else ""
        verb = "fills" if blocks == 1 else "fill"
        places = format_percent(waves) if waves >= _LEAST_WAVES else f"under {format_percent(_LEAST_WAVES)}"
        headline = f"Small grid: {_count(blocks, 'block')} {verb} {places} of the places for blocks{on}"
        without_work = 0.0
    else:
        return
    yield RuleVerdict(
        headline=headline,
        why="The GPU works only where blocks are. The rest of it waits for the kernel to end.",
        action=_START_MORE,
        advice=_MORE_BLOCKS,
        confidence=confidence,
        # More blocks mostly divide the work in another way, which changes the accesses: no bound follows from theirs.
        saving=case.saving({})
        .if_held(max(without_work, empty), f"each {'warp' if empty >= without_work else 'SM'} as fast as now")
        .only_if("the same instructions and accesses"),
        evidence=(
            Evidence(
                "launch__grid_size",
                float(blocks),
                "block",
                threshold=float(sms) if sms else None,
                meaning="blocks, against SMs",
            ),
            *case.metric(_WAVES, "waves", "wave", FULL_WAVE.value),
        ),
    )


def _few_blocks(blocks: int) -> Iterator[RuleVerdict]:
    """Where neither waves nor SMs are known: fewer blocks than any GPU has SMs."""
    if blocks < FEWEST_SMS.value:
        yield RuleVerdict(
            headline=f"Small grid: {_count(blocks, 'block')}, fewer than any GPU has SMs",
            why="The GPU works only where blocks are. The rest of it waits for the kernel to end.",
            action=_START_MORE,
            advice=_MORE_BLOCKS,
            confidence="inferred",
            saving=Saving(1.0 - blocks / FEWEST_SMS.value, "fixed-work", held="each SM as fast as now"),
            evidence=(
                Evidence(
                    "launch__grid_size",
                    float(blocks),
                    "block",
                    threshold=FEWEST_SMS.value,
                    meaning="blocks, against SMs",
                ),
            ),
        )


def _places_by_tile(case: Case) -> float:
    """Return the part of an SM's warps that its blocks can be: counted in where large tiles leave a quarter or less.

    Smaller tiles then repair both, the few blocks and the few warps of each SM.
    """
    theoretical = case.kernel.occupancy.theoretical
    return theoretical if theoretical is not None and theoretical <= FEW_WARPS.value / 100 else 1.0


def _filled_text(case: Case) -> str:
    """Say how few warps there are in all, where that is known."""
    waves, theoretical = case.kernel.waves, case.kernel.occupancy.theoretical
    if waves is None or theoretical is None or waves < _LEAST_WAVES:
        return ""
    return f"; {format_percent(waves * theoretical)} of all warp places are filled"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}".replace(",", "\u202f")


def _tail(case: Case) -> Iterator[RuleVerdict]:
    waves = case.kernel.waves
    if waves is None or not has_tail(waves):
        return
    rounds = math.ceil(waves - 1e-6)
    partial = waves - (rounds - 1)
    filled, seen = _filled_share(case), _idle_sms(case)
    empty = min(_tail_share(waves), 1.0 - filled if filled is not None else 1.0)
    yield RuleVerdict(
        headline=(
            f"Tail effect: {waves:.3g} waves, so the last of {rounds} rounds fills {format_percent(partial)} of the GPU"
        ),
        why="Blocks run in rounds of as many as fit at once. The last, partial round can take as long as a full one.",
        action="Make the grid a whole number of waves, or loop over the work in one wave of blocks",
        advice=(
            "Choose the number of blocks as a multiple of what fits at once (blocks an SM × SMs), loop over the "
            "rest in a persistent or grid-stride kernel, use smaller blocks, or lower registers and shared memory "
            "so that all blocks fit in one round less."
        ),
        confidence="measured" if seen is None or _is_tail(waves, seen) else "inferred",
        saving=case.saving({}).if_held(empty, "each block as fast as now").only_if("the same instructions"),
        evidence=(
            *case.metric(_WAVES, "waves", "wave"),
            Evidence(
                "",
                100 / rounds,
                "%",
                threshold=TAIL_SHARE.value,
                meaning="share of the time that the last round can take",
            ),
            *_active_evidence(case),
        ),
    )


def has_tail(waves: float) -> bool:
    """Tell whether the last round of blocks is partial and a fifth of the time or more."""
    rounds = math.ceil(waves - 1e-6)
    return waves > 1 and rounds - waves >= 1e-6 and 100 / rounds >= TAIL_SHARE.value


def _tail_share(waves: float) -> float:
    """Return the empty part of the last round, of the time of all rounds."""
    return 1.0 - waves / math.ceil(waves - 1e-6)


def _is_tail(waves: float, idle: float) -> bool:
    """Tell whether SMs that are idle for this share of the time are so because the last round is partial: just as long.

    Less is possible, too, where an SM holds several blocks; but then a long block would look the same.
    """
    return has_tail(waves) and 100 * abs(idle - _tail_share(waves)) <= TAIL_SLACK.value


def _idle_sms(case: Case) -> float | None:
    """Return the idle share of an average SM, while the busiest works; None where the two cannot be of one kernel."""
    busiest, average = case.number(_BUSIEST_SM), case.number(_AVERAGE_SM)
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


def _active_evidence(case: Case) -> tuple[Evidence, ...]:
    active = case.active_share
    if active is None:
        return ()
    return (Evidence(_AVERAGE_SM, 100 * active, "%", threshold=None, meaning="SMs with work, of elapsed cycles"),)


def has_short_blocks(case: Case) -> bool:
    """Tell whether an SM is so often between two blocks that its places stand empty, whatever the blocks do."""
    return case.block_cycles is not None and case.block_cycles < SHORT_BLOCK.value


def is_between_blocks(case: Case) -> bool:
    """Tell whether places stand empty because the blocks are short: as many as make a gap of occupancy."""
    achieved, theoretical = case.kernel.occupancy.achieved, case.kernel.occupancy.theoretical
    if achieved is None or theoretical is None or not has_short_blocks(case):
        return False
    return 100 * (theoretical - achieved) >= OCCUPANCY_GAP.value


def _imbalance(case: Case) -> Iterator[RuleVerdict]:
    if _is_under_a_wave(case):
        yield from _uneven_few_blocks(case)
        return
    idle = _idle_sms(case)
    if idle is not None and not _is_by_launch(case, idle):
        longer = format_percent(1 / (1 - idle) - 1)
        yield _imbalance_verdict(
            f"Load imbalance: the busiest SM works {longer} longer than the average SM",
            "measured",
            case.saving({}).if_held(idle, "each block as fast as now").only_if("the same instructions"),
            (
                *case.metric(_BUSIEST_SM, "active cycles of the busiest SM", "cycle"),
                *case.metric(_AVERAGE_SM, "active cycles of an average SM", "cycle"),
                Evidence("", 100 * idle, "%", threshold=IMBALANCE.value, meaning="idle share of an average SM"),
            ),
        )
        return
    if idle is None or case.kernel.waves is None or not _is_tail(case.kernel.waves, idle):
        yield from _occupancy_gap(case)
    yield from _uneven_slices(case)


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
        f"Load imbalance: SMs that have a block work {format_percent(1 - idle)} of the time, then wait for the longest",
        "inferred",
        case.saving({}).if_held(idle, "each warp as fast as now").only_if("the same instructions"),
        (
            *_active_evidence(case),
            Evidence("", 100 * with_work, "%", threshold=None, meaning="SMs that have a block"),
            Evidence("", 100 * idle, "%", threshold=UNEVEN_BLOCKS.value, meaning="idle share of an SM with a block"),
        ),
    )


def _is_under_a_wave(case: Case) -> bool:
    """Tell whether SMs are idle because there are no blocks for them."""
    waves, blocks, sms = case.kernel.waves, case.blocks, case.recorded.hardware.sm_count()
    if waves is not None:
        return waves < FULL_WAVE.value
    return blocks is not None and sms is not None and blocks < sms


def _is_by_launch(case: Case, idle: float) -> bool:
    """Tell whether SMs can be idle for such a share although all blocks do the same: too short, or as blocks divide."""
    duration, waves = case.kernel.duration_s, case.kernel.waves
    if 100 * idle < IMBALANCE.value or (has_short_blocks(case) and _ends_together(case)):
        return True
    if duration is not None and idle * duration < RAMP.value:
        return True
    if waves is not None:
        return _is_tail(waves, idle)
    blocks, sms = case.blocks, case.recorded.hardware.sm_count()
    rounds = blocks / sms if blocks and sms else 0.0
    return rounds > 0 and 100 * (idle - (1.0 - rounds / math.ceil(rounds))) <= TAIL_SLACK.value


def _ends_together(case: Case) -> bool:
    """Tell whether no SM works longer than the average one by more than a short block and the start of the next.

    Where it does, a few blocks are long, however short the average one is.
    """
    busiest, average = case.number(_BUSIEST_SM), case.number(_AVERAGE_SM)
    return busiest is None or average is None or busiest - average <= 2 * SHORT_BLOCK.value


def _occupancy_gap(case: Case) -> Iterator[RuleVerdict]:
    """Fewer warps than fit although there are blocks enough: warps of a block, or blocks, end at different times."""
    waves, achieved = case.kernel.waves, case.kernel.occupancy.achieved
    theoretical = case.kernel.occupancy.theoretical
    if waves is None or not theoretical or achieved is None:
        # Without waves a small grid looks the same.
        return
    # A partial last round leaves a gap of its own.
    expected = theoretical * (1.0 - _tail_share(waves)) if has_tail(waves) else theoretical
    if 100 * (expected - achieved) < OCCUPANCY_GAP.value:
        return
    short, cycles = has_short_blocks(case), case.block_cycles
    saving = case.saving_of_wait(1.0 - achieved / expected)
    of_those = f"{format_percent(achieved)} occupancy of the {format_percent(theoretical)} that fit"
    yield _imbalance_verdict(
        f"Short blocks: they live for {cycles:.0f} cycles each, so {of_those}"
        if short
        else f"Load imbalance: {of_those}",
        "guess",
        replace(saving, held="each warp as fast as now"),
        (
            *(
                (Evidence("", cycles, "cycle", threshold=SHORT_BLOCK.value, meaning="life of an average block"),)
                if cycles is not None
                else ()
            ),
            Evidence(
                "sm__warps_active.avg.pct_of_peak_sustained_active",
                100 * achieved,
                "%",
                threshold=None,
                meaning="achieved occupancy",
            ),
            Evidence(
                "sm__maximum_warps_per_active_cycle_pct",
                100 * theoretical,
                "%",
                threshold=None,
                meaning="theoretical occupancy",
            ),
            Evidence(
                "",
                100 * (expected - achieved),
                "%",
                threshold=OCCUPANCY_GAP.value,
                meaning=_between(theoretical, expected),
            ),
        ),
        short=short,
        settled=short or (case.busiest or 0.0) >= WELL_USED,
    )


def _between(theoretical: float, expected: float) -> str:
    return "points between them" if expected == theoretical else "points between them, beyond the partial last round"


def _uneven_slices(case: Case) -> Iterator[RuleVerdict]:
    busiest, average = case.number(_BUSIEST_SLICE), case.number(_AVERAGE_SLICE)
    if not busiest or not average or 100 * (busiest / average - 1) < SLICES.value:
        return
    l2 = case.utilisation.get("l2")
    yield RuleVerdict(
        headline=f"L2 slices: the busiest is active {format_percent(busiest / average - 1)} longer than the average",
        why="Addresses fall on the slices of L2 by a fixed hash; an access pattern with a large stride prefers some.",
        action="Change the stride between rows, so that blocks start on different slices",
        advice="Change the stride between rows (pad the leading dimension), so that blocks start on different slices.",
        confidence="inferred",
        saving=case.saving({"l2": average / busiest}).if_held(
            min(l2 * busiest / average, 1.0 - average / busiest), "the same accesses"
        )
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
    headline: str,
    confidence: Confidence,
    saving: Saving,
    evidence: tuple[Evidence, ...],
    *,
    short: bool = False,
    settled: bool = False,
) -> RuleVerdict:
    if short:
        why = "An SM takes some hundred cycles to replace a block, and the place of a short one stands empty as long."
        action = "Give each block more work: several elements a thread, or a grid-stride loop"
        advice = "Start fewer blocks that do more: several elements a thread, or a loop over the grid in one wave."
    else:
        why = "Some blocks or warps have more to do than others, and what has finished leaves its place empty."
        action = "Give all blocks equal work: sort by length, split the longest, or take work from a shared counter"
        advice = (
            "Give blocks equal work: sort or bin rows by length, take work from a shared counter (persistent "
            "blocks), or split the longest pieces. Smaller blocks free their place sooner."
        )
    return RuleVerdict(
        headline=headline,
        why=why,
        action=action,
        advice=advice,
        confidence=confidence,
        saving=saving,
        evidence=evidence,
        settled=settled,
    )


LIMITER_ACTION = {
    "registers": "use fewer registers a thread",
    "shared memory": "use less shared memory a block",
    "carve-out": "let the driver give more of L1 to shared memory",
    "block size": "choose a block size that divides the warps of an SM",
    "blocks": "use larger blocks",
    "warps": "choose a block size that divides the warps of an SM",
}
LIMITER_ADVICE = {
    "registers": "use fewer registers a thread (__launch_bounds__, -maxrregcount, a smaller tile or num_stages)",
    "shared memory": "use less shared memory a block (a smaller tile, fewer pipeline stages, a narrower type)",
    "carve-out": "ask for a larger carve-out (cudaFuncSetAttribute, cudaFuncAttributePreferredSharedMemoryCarveout)",
    "block size": "choose a block size that divides the warps of an SM",
    "blocks": "use larger blocks: the SM takes no more of these",
    "warps": "choose a block size that divides the warps of an SM",
}


def _occupancy(case: Case) -> Iterator[RuleVerdict]:
    occupancy = case.kernel.occupancy
    theoretical, limiters = occupancy.theoretical, occupancy.limiters
    if theoretical is None or theoretical >= 0.9999 or not limiters:
        return
    starved, helps = _is_under_a_wave(case), _more_warps_help(case)
    covered = case.stall(*_LATENCIES) if case.stalls else 1.0
    missing = case.saving_of_wait(min(1.0 - theoretical, 0.0 if starved else covered))
    registers, shared = case.kernel.registers_per_thread, case.kernel.shared_memory_per_block
    yield RuleVerdict(
        headline=f"Occupancy: {format_percent(theoretical)} at most, {limited_by(occupancy)}",
        why=(
            "The grid does not even fill these places, so the limit costs nothing here."
            if starved
            else "A scheduler with fewer warps has less to switch to while others wait. The warps wait mostly for what "
            "others could cover, the issue slots are idle and no unit is full."
            if helps
            else "It costs time where warps wait for what others could cover while issue slots are idle and no unit is "
            "full; the report does not show that."
        ),
        action=f"Raise occupancy: {LIMITER_ACTION.get(limiters[0], limiters[0])}",
        advice=(
            f"To raise it, {'; '.join(LIMITER_ADVICE.get(name, name) for name in limiters)}. More work in flight "
            "per thread (unrolling, asynchronous copies) hides the same latency without more warps."
        ),
        confidence="inferred" if helps else "guess",
        saving=replace(missing, held="each warp as fast as now"),
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
                        meaning="registers a thread",
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
                        meaning="shared memory a block",
                    ),
                )
                if shared
                else ()
            ),
            *case.issue_evidence(None),
        ),
    )


_LATENCIES = ("long_scoreboard", "short_scoreboard", "wait", "barrier", "branch_resolving", "membar", "gmma")
"""What warps wait for while others could run; in the other states a queue or a pipe is full, and more warps wait."""


def _more_warps_help(case: Case) -> bool:
    """Tell whether more warps would find room and cover what these wait for, and whether all that fit are there."""
    if _is_under_a_wave(case) or not _has_room(case):
        return False
    occupancy = case.kernel.occupancy
    if occupancy.achieved is not None and occupancy.theoretical:
        taken = 100 * occupancy.achieved / occupancy.theoretical >= TAKEN.value
    else:
        taken = case.kernel.waves is not None
    return taken and _waits_for_latency(case)


def _waits_for_latency(case: Case) -> bool:
    """Tell whether most warps wait for what others cover; without warp states, whether no unit is there to wait for."""
    if case.stalls:
        return 100 * case.stall(*_LATENCIES) >= COVERED.value
    eligible = case.kernel.scheduler.eligible_warps if case.kernel.scheduler is not None else None
    return eligible is not None and "sm" in case.utilisation and case.memory_utilisation is not None


def _has_room(case: Case) -> bool:
    """Tell whether more warps would find idle issue slots: few of them used, hardly a warp eligible, no unit busy."""
    eligible = case.kernel.scheduler.eligible_warps if case.kernel.scheduler is not None else None
    return (
        case.issue_active is not None
        and case.issue_active < STARVED_ISSUE.value / 100
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
        why="Launching, filling the caches and draining take microseconds each, whatever the kernel computes.",
        action="Fuse or batch it with its neighbours, or launch the sequence as a CUDA graph",
        advice=(
            "Fuse it with its neighbours (torch.compile, one Triton kernel), batch several calls into one, or "
            "launch the sequence as a CUDA graph. Counters of so short a kernel are uncertain."
        ),
        confidence="measured",
        saving=None,
        evidence=(Evidence("gpu__time_duration.sum", duration, "s", threshold=SHORT.value, meaning="duration"),),
    )


RULES = (
    Rule(
        "small-grid",
        "The grid does not fill the GPU",
        about="defect",
        looks_at="Blocks against SMs, and waves; where neither is known, fewer than 4 blocks, because no GPU since "
        "Volta has fewer SMs. Launch data alone make it certain, but for half a wave and more on all SMs: there it is "
        "inferred where issue slots and units are idle, else a guess.",
        thresholds=(FULL_WAVE, HALF_WAVE, FEW_WARPS, STARVED_ISSUE),
        gain="min(1 − largest need of a unit, empty), where empty is the larger of 1 − blocks ÷ SMs, with each SM as "
        "fast as now, and 1 − waves (× theoretical occupancy, where that is a quarter or less: smaller tiles repair "
        "both), with each warp as fast as now. Needs are averages over all SMs: more blocks leave them as they are "
        "with the same instructions and accesses.",
        silent="At least one full wave.",
        check=_small_grid,
        metrics=(_WAVES,),
        by_times=True,
        place=TreePlace((), "warps"),
    ),
    Rule(
        "tail-effect",
        "The last round of blocks is partial",
        about="defect",
        looks_at="Waves, and where collected the share of time in which SMs had work and their warps' places were "
        "filled.",
        thresholds=(TAIL_SHARE, TAIL_SLACK),
        gain="min(1 − waves ÷ rounds, empty, 1 − largest need of a unit), with each block as fast as now: the empty "
        "part of the last round; rounds are the waves rounded up. Empty are the places for warps that were not filled: "
        "1 − share of the time in which SMs had work × achieved ÷ theoretical occupancy (without occupancy, of the "
        "SMs).",
        silent="One wave or less, five waves or more, or a whole number of them.",
        check=_tail,
        metrics=(_WAVES,),
        place=TreePlace((), "warps"),
    ),
    Rule(
        "load-imbalance",
        "Work is spread unevenly",
        about="defect",
        looks_at="Active cycles of the busiest against the average SM; else achieved against theoretical occupancy; "
        "active cycles of L2 slices. Blocks that live for under 2 000 cycles are told as such and as a fact (`info`): "
        "places stand empty between them without any imbalance, and so may an SM be, for up to two such blocks. A "
        "block lives for active cycles of an SM × blocks that it holds (by achieved occupancy) ÷ blocks that it runs.",
        thresholds=(IMBALANCE, RAMP, UNEVEN_BLOCKS, SHORT_BLOCK, TAIL_SLACK, OCCUPANCY_GAP, SLICES),
        gain="For SMs min(1 − average ÷ busiest SM, 1 − largest need of a unit), with each block as fast as now. For "
        "occupancy min(1 − achieved ÷ theoretical, 1 − issue slots used, 1 − largest need), with each warp as fast as "
        "now. For slices min(the busiest slice's busy fraction, 1 − average ÷ busiest slice, 1 − largest need that "
        "remains), with the same accesses.",
        silent="Under one wave (`small-grid` speaks then) but for one block an SM, most of which end in half the time, "
        "or the gaps are smaller, or a partial last round explains them (`tail-effect` speaks then).",
        check=_imbalance,
        metrics=(_BUSIEST_SM, _AVERAGE_SM, _BUSIEST_SLICE, _AVERAGE_SLICE),
        place=TreePlace((), "warps"),
    ),
    Rule(
        "low-occupancy",
        "Fewer warps fit than the SM has places",
        about="defect",
        looks_at="Theoretical occupancy and what limits it: registers, shared memory, block size or the number of "
        "blocks.",
        thresholds=(FULL, STARVED_ISSUE, COVERED, TAKEN),
        gain="min(1 − theoretical occupancy, share of warps that wait for a latency, 1 − issue slots used, 1 − largest "
        "need of a unit), with each warp as fast as now; 0 where the grid is under one wave. It is a fact (`info`) "
        "unless more warps help: issue slots and units are idle, the places that there are are taken, and most warps "
        "wait for a latency (long and short scoreboard, wait, barrier, branch resolving, membar, GMMA). Without warp "
        "states, SM, memory and schedulers that are all idle tell so, because a full queue needs a busy unit.",
        silent="100 % theoretical occupancy: nothing limits it then.",
        check=_occupancy,
        place=TreePlace((), "warps"),
    ),
    Rule(
        "short-kernel",
        "The kernel is as short as its launch",
        about="limit",
        looks_at="Duration.",
        thresholds=(SHORT,),
        gain="Not known from counters: what fusing saves is the time between kernels.",
        silent="5 µs or longer.",
        check=_short,
        by_times=True,
        place=AT_KERNEL,
    ),
)
