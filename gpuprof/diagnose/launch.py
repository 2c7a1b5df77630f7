"""Rules on how a kernel fills the GPU: grid, waves, occupancy and length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.diagnose.case import Case
from gpuprof.diagnose.dram_latency import IDLE, QUEUED, queues_at_dram
from gpuprof.diagnose.needs import ISSUE, LAUNCH, LAUNCH_MOST_S, LAUNCH_S, SM, WORK
from gpuprof.diagnose.rule import AT_KERNEL, Cause, Rule, Threshold, TreePlace, finding, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import MAIN, Amount, Cases, Label
from gpuprof.model.session import Evidence, Finding

FULL_WAVE = Threshold("full-wave", 1.0, "wave")
HALF_WAVE = Threshold("half-wave", 0.5, "wave")
STARVED_ISSUE = percent("starved-issue", 60.0)
COVERED = percent("latency-stalls", 50.0)
TAKEN = percent("slots-taken", 80.0)
FEW_WARPS = percent("few-warps", 25.0)
TAIL_SHARE = percent("last-wave", 20.0)
TAIL_SLACK = percent("tail-slack", 5.0)
FULL = percent("full-occupancy", 100.0)
SHORT = Threshold("duration", 5e-6, "s")
NOTHING = Threshold("little-work", 3e-6, "s")
LAUNCH_ALONE = percent("launch-alone", 50.0)

SHORT_KERNEL = "short-kernel"
FUSED = "same-work-in-another-launch"
_WAVES = "launch__waves_per_multiprocessor"
BUSIEST_SM, AVERAGE_SM = "sm__cycles_active.max", "sm__cycles_active.avg"
FULL_OF = 0.9999
"""What is above it differs from all by rounding."""
_LEAST_WAVES = 0.01
"""Text exports round waves to two digits."""
_FEWEST_SMS = 4
"""No GPU since Volta has fewer SMs: Orin Nano 4GB has 4."""


def _small_grid(case: Case) -> Iterator[Finding]:
    blocks, sms, waves = case.blocks, case.recorded.hardware.sm_count(), case.kernel.waves
    if blocks is None:
        return
    if sms is None and waves is None:
        yield from _few_blocks(case, blocks)
        return
    empty = _empty_places(case, waves) if waves is not None else _of_sms(0.0)
    confidence: Confidence = "measured"
    amounts = [Amount("blocks", blocks, "block")]
    if sms is not None:
        amounts.append(Amount("sms", sms, "SM"))
    without_work = 0.0
    if sms is not None and blocks < sms:
        headline: tuple[str, ...] = ("few-blocks",)
        filled = _filled_slots(case)
        if filled is not None:
            headline = ("few-blocks", "slots")
            amounts.append(Amount("filled", filled, "fraction"))
        without_work = 1.0 - blocks / sms
    elif waves is not None and waves < FULL_WAVE.value:
        if waves >= HALF_WAVE.value:
            confidence = "inferred" if has_room(case) else "guess"
        headline = _of_a_wave(blocks, sms, waves)
        amounts.append(Amount("waves", waves, "fraction"))
        amounts.append(Amount("least", _LEAST_WAVES, "fraction"))
    else:
        return
    yield _grid_finding(
        case,
        Cases(headline=headline, why=("every-sm",) if sms is not None and blocks >= sms else MAIN),
        amounts,
        confidence,
        empty if empty.share >= without_work else _of_sms(without_work),
        (_blocks_evidence(blocks, sms), *case.metric(_WAVES, "waves", "wave", FULL_WAVE.value)),
    )


def _of_a_wave(blocks: int, sms: int | None, waves: float) -> tuple[str, ...]:
    if waves >= _LEAST_WAVES:
        fills = "one-block" if blocks == 1 else "blocks"
    else:
        fills = "one-block-hardly" if blocks == 1 else "blocks-hardly"
    return (fills,) if sms is None else (fills, "on-sms")


def _few_blocks(case: Case, blocks: int) -> Iterator[Finding]:
    """If neither waves nor SMs are known: judge fewer blocks than a GPU has SMs."""
    seen = _sms_by_idle(case, blocks)
    if seen is not None:
        yield _grid_finding(
            case,
            Cases(headline=("about",)),
            [Amount("blocks", blocks, "block"), Amount("sms", seen.sms, "SM")],
            seen.confidence,
            _of_sms(1.0 - blocks / seen.sms),
            (_blocks_evidence(blocks, seen.sms), *active_evidence(case)),
        )
        return
    known = case.recorded.hardware.fewest_sms()
    fewest = known if known is not None else _FEWEST_SMS
    if blocks >= fewest:
        return
    is_sure = blocks < _FEWEST_SMS
    capability = case.recorded.hardware.arch.name.removeprefix("sm_")
    yield _grid_finding(
        case,
        Cases(headline=("any-gpu",) if is_sure else ("architecture",)),
        [Amount("blocks", blocks, "block"), Amount("sms", fewest, "SM")],
        "inferred" if is_sure else "guess",
        _of_sms(1.0 - blocks / fewest),
        (_blocks_evidence(blocks, fewest),),
        labels=(Label("capability", (f"{capability[:-1]}.{capability[-1]}",)),),
    )


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
    return _Empty(share, "same-speed-per-warp")


def _of_sms(share: float) -> _Empty:
    return _Empty(share, "same-speed-per-sm")


def _grid_finding(
    case: Case,
    cases: Cases,
    amounts: Sequence[Amount],
    confidence: Confidence,
    empty: _Empty,
    evidence: tuple[Evidence, ...],
    labels: tuple[Label, ...] = (),
) -> Finding:
    return finding(
        case,
        cases,
        amounts=tuple(amounts),
        labels=labels,
        confidence=confidence,
        # More blocks mostly divide the work in another way, which changes the accesses: no bound follows from theirs.
        saving=case.saving({})
        .if_held(case.working_share * empty.share, empty.held)
        .only_if("same-instructions-and-accesses"),
        evidence=evidence,
    )


def _blocks_evidence(blocks: int, sms: int | None) -> Evidence:
    threshold = float(sms) if sms else None
    return Evidence("launch__grid_size", float(blocks), "block", threshold=threshold, role="blocks")


def _empty_places(case: Case, waves: float) -> _Empty:
    """Return the empty part of the places for blocks; of those for warps, where large tiles leave a quarter or less.

    Smaller tiles then mend both, the few blocks and the few warps of each SM. How far that helps depends on what the
    SMs can take, so it counts only where counters tell how busy they are.
    """
    theoretical = case.kernel.occupancy.theoretical
    if theoretical is None or theoretical > FEW_WARPS.value / 100 or not _is_counted(case):
        return _of_places(1.0 - waves)
    return _Empty(1.0 - waves * theoretical, "same-speed-per-warp-in-smaller-tiles")


def _is_counted(case: Case) -> bool:
    """Tell whether counters say how busy a unit is: a launch alone does not tell how many blocks its work takes."""
    return any(unit not in (LAUNCH, WORK) for unit in case.needs)


def _filled_slots(case: Case) -> float | None:
    """Return the share of all warp slots that are filled; None if that is not known."""
    waves, theoretical = case.kernel.waves, case.kernel.occupancy.theoretical
    return waves * theoretical if waves is not None and theoretical is not None and waves >= _LEAST_WAVES else None


def _tail(case: Case) -> Iterator[Finding]:
    waves = case.kernel.waves
    if waves is None or not has_tail(waves):
        return
    rounds = math.ceil(waves - 1e-6)
    filled, seen = _filled_share(case), idle_sms(case)
    # What an average SM is idle for can be the tail itself: only the busiest one tells the launch's part.
    working = case.working_share if case.busiest_share is not None else 1.0
    empty = min(case.working_share * tail_share(waves), working - filled if filled is not None else 1.0)
    yield finding(
        case,
        amounts=(
            Amount("waves", waves, "wave"),
            Amount("rounds", rounds),
            Amount("partial", waves - (rounds - 1), "fraction"),
        ),
        confidence="measured" if seen is not None and is_tail(waves, seen) else "inferred",
        saving=case.saving({}).if_held(empty, "same-time-per-block").only_if("same-instructions"),
        evidence=(
            *case.metric(_WAVES, "waves", "wave"),
            Evidence("", 100 / rounds, "%", threshold=TAIL_SHARE.value, role="time-of-last-wave"),
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
    return (Evidence(AVERAGE_SM, 100 * active, "%", threshold=None, role="sms-with-work"),)


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


def _occupancy(case: Case) -> Iterator[Finding]:
    occupancy = case.kernel.occupancy
    theoretical, limiters = occupancy.theoretical, occupancy.limiters
    if theoretical is None or theoretical >= FULL_OF or not limiters:
        return
    starved, helps, queued = is_under_a_wave(case), _more_warps_help(case), queues_at_dram(case)
    why = "not-shown"
    if starved:
        why = "few-blocks"
    elif queued:
        why = "queue"
    elif helps:
        why = "latencies"
    waits = 0.0 if starved or queued else case.stall_at_most(*LATENCIES)
    missing = case.saving_of_wait(min(1.0 - theoretical, waits))
    changes = [limiter.replace(" ", "-") for limiter in limiters]
    others = (part for change in changes[1:] for part in ("or", change))
    yield finding(
        case,
        Cases(why=(why,), action=("main", changes[0]), advice=("main", changes[0], *others, "in-flight")),
        amounts=(Amount("theoretical", theoretical, "fraction"),),
        labels=(Label("limiters", limiters),),
        confidence="inferred" if helps else "guess",
        saving=replace(missing, assumes=("same-speed-per-warp",)),
        severity=None if helps else "info",
        evidence=(theoretical_evidence(theoretical, FULL.value), *_resources(case), *case.issue_evidence(None)),
    )


def theoretical_evidence(theoretical: float, threshold: float | None) -> Evidence:
    """Return theoretical occupancy as evidence."""
    metric = "sm__maximum_warps_per_active_cycle_pct"
    return Evidence(metric, 100 * theoretical, "%", threshold=threshold, role="theoretical-occupancy")


def _resources(case: Case) -> Iterator[Evidence]:
    registers, shared = case.kernel.registers_per_thread, case.kernel.shared_memory_per_block
    if registers is not None:
        metric = "launch__registers_per_thread"
        yield Evidence(metric, float(registers), "register", threshold=None, role="registers")
    if shared:
        yield Evidence("launch__shared_mem_per_block", float(shared), "B", threshold=None, role="shared-memory")


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


def _short(case: Case) -> Iterator[Finding]:
    duration = case.kernel.duration_s
    if duration is None or not is_short(case):
        return
    yield finding(
        case,
        Cases(headline=("main", "less-than-launch" if duration < LAUNCH_S else "as-long-as-launch")),
        amounts=(Amount("duration", duration, "s"),),
        confidence="measured",
        saving=case.saving({LAUNCH: 0.0}).if_held(1.0 - case.working_share, FUSED).only_if(FUSED),
        evidence=(
            Evidence("gpu__time_duration.sum", duration, "s", threshold=SHORT.value, role=SHORT.name),
            *case.metric(BUSIEST_SM, "busiest-sm", "cycle"),
            *case.metric("sm__cycles_elapsed.max", "elapsed-cycles", "cycle"),
        ),
    )


def _is_about_a_launch(case: Case) -> bool:
    """Tell whether a kernel takes little more than one that does nothing, whatever its grid."""
    duration = case.kernel.duration_s
    return duration is not None and (duration < NOTHING.value or 100 * case.needs.get(LAUNCH, 0.0) > LAUNCH_ALONE.value)


RULES = (
    Rule(
        "small-grid",
        kind="defect",
        thresholds=(FULL_WAVE, HALF_WAVE, FEW_WARPS, STARVED_ISSUE, NOTHING, LAUNCH_ALONE, TAIL_SHARE, TAIL_SLACK),
        check=_small_grid,
        metrics=(_WAVES,),
        by_times=True,
        causes=(Cause(SHORT_KERNEL, _is_about_a_launch),),
        place=TreePlace((), "warps"),
    ),
    Rule(
        "tail-effect",
        kind="defect",
        thresholds=(TAIL_SHARE, TAIL_SLACK),
        check=_tail,
        metrics=(_WAVES,),
        causes=tuple(Cause(rule, _last_round_is_shorter(*units)) for rule, units in _LIMITS.items()),
        place=TreePlace((), "warps"),
    ),
    Rule(
        "low-occupancy",
        kind="defect",
        thresholds=(FULL, STARVED_ISSUE, COVERED, TAKEN, QUEUED, IDLE),
        check=_occupancy,
        causes=(Cause("block-size", is_held_by_blocks),),
        place=TreePlace((), "warps"),
    ),
    Rule(
        SHORT_KERNEL,
        kind="limit",
        thresholds=(SHORT,),
        check=_short,
        by_times=True,
        place=AT_KERNEL,
    ),
)
