"""Rules on how a kernel fills the GPU: grid, waves, occupancy and length."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec.structs import replace

from gpuprof.diagnose.case import WELL_USED, Case
from gpuprof.diagnose.dram_latency import IDLE, QUEUED, queues_at_dram
from gpuprof.diagnose.needs import ISSUE, LAUNCH, LAUNCH_MOST_S, LAUNCH_S, MEMORY, SM, WORK, Saving
from gpuprof.diagnose.rule import (
    AT_KERNEL,
    Cause,
    Findings,
    Rule,
    Threshold,
    TreePlace,
    amounts_of,
    context,
    finding,
    labels_of,
    percent,
)
from gpuprof.diagnose.traffic import LOCAL_SECTORS
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, Cases, Label
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

AT_WARPS = TreePlace((), "warps")
SHORT_KERNEL = "short-kernel"
_PER_SM, _PER_WARP = "same-speed-per-sm", "same-speed-per-warp"
_WAVES = "launch__waves_per_multiprocessor"
BUSIEST_SM, AVERAGE_SM = "sm__cycles_active.max", "sm__cycles_active.avg"
FULL_OF = 0.9999
"""A larger fraction differs from 1 only by rounding."""
_LEAST_WAVES = 0.01
"""Text exports round waves to two digits."""
_FEWEST_SMS = 4
"""No GPU since Volta has fewer SMs: Orin Nano 4GB has 4."""


def _small_grid(case: Case) -> Findings:
    blocks, sms, waves = case.blocks, case.sms, case.waves
    if blocks is None:
        return
    if sms is None and waves is None:
        yield from _few_blocks(case, blocks)
        return
    empty = (0.0, _PER_SM) if waves is None else _empty_slots(case, waves)
    confidence: Confidence = "measured"
    why = "main"
    if sms is not None and blocks < sms:
        headline, why, amounts = ["few-blocks"], "no-block", amounts_of()
        theoretical = case.occupancy.theoretical
        if waves is not None and waves >= _LEAST_WAVES and theoretical is not None:
            headline.append("slots")
            amounts = amounts_of(filled=waves * theoretical)
        without_block = 1.0 - blocks / sms
        if without_block > empty[0]:
            empty = (without_block, _PER_SM)
    elif waves is not None and waves < FULL_WAVE.value:
        if waves >= HALF_WAVE.value:
            confidence = "inferred" if has_room(case) else "guess"
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
        case,
        blocks,
        sms,
        Cases(headline=tuple(headline), why=(why,)),
        confidence,
        *empty,
        amounts=amounts,
        evidence=case.metric(_WAVES, "waves", "wave", FULL_WAVE.value),
    )


def _few_blocks(case: Case, blocks: int) -> Findings:
    """Report fewer blocks than a GPU has SMs, if neither waves nor SMs are known."""
    sms = case.hardware.fewest_sms() or _FEWEST_SMS
    confidence: Confidence = "guess"
    cases = Cases(headline=("architecture",), why=("perhaps-no-block",))
    name = case.arch.name.removeprefix("sm_")
    labels = labels_of(capability=(f"{name[:-1]}.{name[-1:]}",))
    evidence: tuple[Evidence, ...] = ()
    seen = _sms_by_idle(case, blocks)
    if seen is not None:
        sms, confidence = seen
        cases = replace(cases, headline=("about",))
        labels, evidence = (), active_evidence(case)
    elif blocks >= sms:
        return
    elif blocks < _FEWEST_SMS:
        confidence = "inferred"
        cases = Cases(headline=("any-gpu",), why=("no-block",))
    yield _grid_finding(case, blocks, sms, cases, confidence, 1.0 - blocks / sms, labels=labels, evidence=evidence)


def _sms_by_idle(case: Case, blocks: int) -> tuple[int, Confidence] | None:
    """Infer the number of SMs, and its confidence, from the share of time with work.

    If no SM has more than one block, the number is blocks ÷ that share, or less if blocks end
    early. Return None if the launch itself can leave SMs without work for that long, or if no GPU
    has so many SMs.
    """
    active, duration = case.active_share, case.kernel.duration_s
    if not active or not duration or not TAIL_SHARE.is_reached(1.0 - active - LAUNCH_MOST_S / duration):
        return None
    counts = [count for gpu in case.hardware.siblings() if (count := gpu.number("sm_count"))]
    sms = blocks / active
    nearest = min(counts, key=lambda count: abs(count - sms), default=0.0)
    if blocks < nearest and 100 * abs(sms / nearest - 1.0) <= TAIL_SLACK.value:
        return round(nearest), "inferred"
    if sms >= max(counts, default=0.0):
        return None
    return round(sms), "guess"


def _grid_finding(
    case: Case,
    blocks: int,
    sms: int | None,
    cases: Cases,
    confidence: Confidence,
    empty: float,
    assumption: str = _PER_SM,
    *,
    amounts: tuple[Amount, ...] = (),
    labels: tuple[Label, ...] = (),
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    return finding(
        case,
        cases,
        amounts=(Amount("blocks", blocks, "block"), *amounts_of("SM", sms=sms), *amounts),
        labels=labels,
        confidence=confidence,
        # More blocks mostly divide the work in another way and change the accesses, so these give
        # no bound.
        saving=case.saving({})
        .if_held(case.working_share * empty, assumption)
        .only_if("same-instructions-and-accesses"),
        evidence=(
            Evidence("launch__grid_size", float(blocks), "block", float(sms) if sms else None, role="blocks"),
            *evidence,
        ),
    )


def _empty_slots(case: Case, waves: float) -> tuple[float, str]:
    """Return the empty part of the block slots, or of the warp slots if large tiles allow a quarter
    of these or less.

    The second value is the assumption for when that part has work. Smaller tiles fix both the few
    blocks and the few warps of each SM. The gain depends on the capacity of the SMs, so this
    applies only if counters show how busy they are; a launch alone does not.
    """
    theoretical = case.occupancy.theoretical
    is_counted = any(unit not in (LAUNCH, WORK) for unit in case.needs)
    if theoretical is None or theoretical > FEW_WARPS.value / 100 or not is_counted:
        return 1.0 - waves, _PER_WARP
    return 1.0 - waves * theoretical, "same-speed-per-warp-in-smaller-tiles"


def _tail(case: Case) -> Findings:
    waves = case.waves
    if waves is None or not has_tail(waves):
        return
    rounds = math.ceil(waves - 1e-6)
    filled, seen = _filled_share(case), idle_sms(case)
    # The idle time of an average SM can be the tail itself: only the busiest SM shows the launch's
    # part.
    working = 1.0 if case.busiest_share is None else case.working_share
    empty = case.working_share * tail_share(waves)
    if filled is not None:
        empty = min(empty, working - filled)
    yield finding(
        case,
        amounts=(
            Amount("waves", waves, "wave"),
            Amount("rounds", rounds),
            *amounts_of(partial=waves - (rounds - 1)),
        ),
        confidence="measured" if seen is not None and is_tail(waves, seen) else "inferred",
        saving=without_idle(case, empty),
        evidence=(
            *case.metric(_WAVES, "waves", "wave"),
            TAIL_SHARE.evidence(100 / rounds, "time-of-last-wave"),
            *active_evidence(case),
        ),
    )


def without_idle(case: Case, idle: float, assumption: str = "same-time-per-block") -> Saving:
    """Return the saving of the SMs' idle time if all have equal work."""
    return case.saving({}).if_held(idle, assumption).only_if("same-instructions")


def in_another_launch(case: Case) -> Saving:
    """Return the saving of the launch itself, if another launch does the work."""
    same_work = "same-work-in-another-launch"
    return case.saving({LAUNCH: 0.0}).if_held(1.0 - case.working_share, same_work).only_if(same_work)


def has_tail(waves: float) -> bool:
    """Return whether the last round of blocks is partial and takes a fifth of the time or more."""
    rounds = math.ceil(waves - 1e-6)
    return waves > 1 and rounds - waves >= 1e-6 and TAIL_SHARE.is_reached(1 / rounds)


def tail_share(waves: float) -> float:
    """Return the empty part of the last round as a fraction of all rounds."""
    return 1.0 - waves / math.ceil(waves - 1e-6)


def _last_round_is_shorter(unit: str) -> Callable[[Case], bool]:
    """Return a check whether the last round takes less time than a full one, because of the need of
    a unit.

    A pipe has the need of the SM's busiest part or of its issue slots if these need more. Blocks
    occupy such a unit in the full rounds and a part of the last one. If the unit was busy for a
    larger part of the time, it limits the blocks while all of them run, and the few blocks of the
    last round run faster.
    """

    def is_shorter(case: Case) -> bool:
        waves = case.waves
        need = case.need(unit)
        if unit not in MEMORY:
            need = max(need, case.need(SM), case.need(ISSUE))
        return waves is not None and need > 1.0 - tail_share(waves)

    return is_shorter


_LIMITS = {
    "dram-bandwidth": "dram", "l2-bandwidth": "l2", "l1-bandwidth": "l1", "fp32-compute-bound": "fma",
    "tensor-compute-bound": "tensor", "integer-bound": "alu", "special-function-bound": "xu", "fp64-bound": "fp64",
}  # fmt: skip
"""Rules on a full unit, and the unit."""


def is_tail(waves: float, idle: float) -> bool:
    """Return whether the partial last round explains SMs that are idle for this share.

    The idle share can also be smaller if an SM runs several blocks, but then a long block would
    look the same.
    """
    return has_tail(waves) and 100 * abs(idle - tail_share(waves)) <= TAIL_SLACK.value


def idle_sms(case: Case) -> float | None:
    """Return the idle share of an average SM while the busiest works; None if not plausible."""
    busiest, average = case.number(BUSIEST_SM), case.number(AVERAGE_SM)
    if not busiest or not average:
        return None
    idle = 1.0 - average / busiest
    return idle if idle < 1.0 else None


def _filled_share(case: Case) -> float | None:
    """Return the filled share of the warp slots over the kernel, or of the SMs if occupancy is not
    known.

    An SM with one block of the last round has work, and most of its warp slots are empty.
    """
    active = case.active_share
    theoretical, achieved = case.occupancy.theoretical, case.occupancy.achieved
    if active is None or not theoretical or achieved is None:
        return active
    return active * min(1.0, achieved / theoretical)


def active_evidence(case: Case) -> tuple[Evidence, ...]:
    """Return as evidence the share of the time in which an average SM had work."""
    if case.active_share is None:
        return ()
    return context("sms-with-work", 100 * case.active_share, "%", metric=AVERAGE_SM)


def is_under_a_wave(case: Case) -> bool:
    """Return whether SMs are idle because there are no blocks for them."""
    waves, blocks, sms = case.waves, case.blocks, case.sms
    if waves is not None:
        return waves < FULL_WAVE.value
    return blocks is not None and sms is not None and blocks < sms


def is_held_by_blocks(case: Case) -> bool:
    """Return whether the maximum number of blocks per SM is the only limit on its warps."""
    occupancy = case.occupancy
    return occupancy.limiters == ("blocks",) and occupancy.theoretical is not None and occupancy.theoretical < FULL_OF


def _occupancy(case: Case) -> Findings:
    kernel, theoretical, limiters = case.kernel, case.occupancy.theoretical, case.occupancy.limiters
    if theoretical is None or theoretical >= FULL_OF or not limiters:
        return
    helps = _more_warps_help(case)
    waits = case.stall_at_most(*LATENCIES)
    why, busiest = "not-shown", None
    if is_under_a_wave(case):
        why, waits = "few-blocks", 0.0
    elif queues_at_dram(case):
        why, waits = "queue", 0.0
    elif helps:
        why = "latencies" if case.stalls else "few-eligible"
    elif (case.busiest or 0.0) >= WELL_USED:
        why, busiest = "unit-full", case.busiest
    missing = case.saving_of_wait(min(1.0 - theoretical, waits))
    cases = _changes(case, limiters, why)
    if why in _NO_CHANGE:
        cases = Cases(why=(why,), action=(why,), advice=(why,))
    yield finding(
        case,
        cases,
        amounts=amounts_of(theoretical=theoretical, busiest=busiest),
        labels=labels_of(limiters=limiters),
        confidence="inferred" if helps else "guess",
        saving=replace(missing, assumes=(_PER_WARP,)),
        is_fact=not helps,
        evidence=(
            *theoretical_evidence(case, FULL.value),
            *context("registers", kernel.registers_per_thread, "register", metric="launch__registers_per_thread"),
            *context(
                "shared-memory", kernel.shared_memory_per_block or None, "B", metric="launch__shared_mem_per_block"
            ),
            *case.issue_evidence(),
        ),
    )


_NO_CHANGE = ("few-blocks", "queue", "unit-full")
"""Reasons for which more warps hardly help."""


def _changes(case: Case, limiters: tuple[str, ...], why: str) -> Cases:
    """Return the cases of what raises occupancy; no cap on registers if values are spilled."""
    changes = [limiter.replace(" ", "-") for limiter in limiters]
    if "registers" in changes and any(map(case.number, LOCAL_SECTORS)):
        changes[changes.index("registers")] = "registers-spilled"
    action = ("main", changes[0])
    if len(changes) > 1:
        changes.append("all")
    return Cases(why=(why,), action=action, advice=(*changes, "in-flight"))


def theoretical_evidence(case: Case, threshold: float | None = None) -> tuple[Evidence, ...]:
    """Return theoretical occupancy as evidence; nothing if it is not known."""
    theoretical = case.occupancy.theoretical
    if theoretical is None:
        return ()
    metric = "sm__maximum_warps_per_active_cycle_pct"
    return (Evidence(metric, 100 * theoretical, "%", threshold, role="theoretical-occupancy"),)


LATENCIES = ("long_scoreboard", "short_scoreboard", "wait", "barrier", "branch_resolving", "membar", "gmma")
"""Stall reasons that other warps can hide; in other states a queue or a pipe is full."""


def _more_warps_help(case: Case) -> bool:
    """Return whether more warps would hide latencies, and all warps that fit are there."""
    if is_under_a_wave(case) or not has_room(case) or queues_at_dram(case):
        return False
    return is_taken(case) and others_cover(case) and (bool(case.stalls) or _eligible_warps(case) is not None)


def is_taken(case: Case) -> bool:
    """Return whether the available warp slots are taken."""
    occupancy = case.occupancy
    if occupancy.achieved is not None and occupancy.theoretical:
        return TAKEN.is_reached(occupancy.achieved / occupancy.theoretical)
    return case.waves is not None


def others_cover(case: Case) -> bool:
    """Return whether other warps can hide most stalls; without stalls, if units' use is known."""
    if case.stalls:
        return COVERED.is_reached(case.stall(*LATENCIES))
    return "sm" in case.utilisation and case.memory_utilisation is not None


def _eligible_warps(case: Case) -> float | None:
    scheduler = case.kernel.scheduler
    return scheduler.eligible_warps if scheduler is not None else None


def has_room(case: Case) -> bool:
    """Return whether more warps would find idle issue slots: few are used, hardly a warp is
    eligible, no unit is busy.

    If issue slots were not collected, use the SM, which is at least as busy.
    """
    issued, eligible = case.issue_active, _eligible_warps(case)
    if issued is None:
        issued = case.utilisation.get("sm")
    if issued is None or case.busiest is None or (eligible is not None and eligible >= 1.0):
        return False
    return max(issued, case.busiest, case.busiest_need or 0.0) < STARVED_ISSUE.value / 100


def is_short(case: Case) -> bool:
    """Return whether the launch takes about as long as the kernel, so that no gain is sure."""
    return case.kernel.duration_s is not None and case.kernel.duration_s < SHORT.value


def _short(case: Case) -> Findings:
    duration = case.kernel.duration_s
    if duration is None or duration >= SHORT.value:
        return
    yield finding(
        case,
        Cases(headline=("main", "less-than-launch" if duration < LAUNCH_S else "as-long-as-launch")),
        amounts=(Amount("duration", duration, "s"),),
        confidence="measured",
        saving=in_another_launch(case),
        evidence=(
            SHORT.evidence(duration, metric="gpu__time_duration.sum"),
            *case.metrics_as({BUSIEST_SM: "busiest-sm", "sm__cycles_elapsed.max": "elapsed-cycles"}, "cycle"),
        ),
    )


def _is_about_a_launch(case: Case) -> bool:
    """Return whether a kernel takes little longer than an empty one, whatever its grid."""
    duration = case.kernel.duration_s
    return duration is not None and (duration < NOTHING.value or 100 * case.need(LAUNCH) > LAUNCH_ALONE.value)


RULES = (
    Rule(
        "small-grid",
        thresholds=(FULL_WAVE, HALF_WAVE, FEW_WARPS, STARVED_ISSUE, NOTHING, LAUNCH_ALONE, TAIL_SHARE, TAIL_SLACK),
        check=_small_grid,
        metrics=(_WAVES,),
        by_times=True,
        causes=(Cause(SHORT_KERNEL, _is_about_a_launch),),
        place=AT_WARPS,
    ),
    Rule(
        "tail-effect",
        thresholds=(TAIL_SHARE, TAIL_SLACK),
        check=_tail,
        metrics=(_WAVES,),
        causes=tuple(Cause(rule, _last_round_is_shorter(unit)) for rule, unit in _LIMITS.items()),
        place=AT_WARPS,
    ),
    Rule(
        "low-occupancy",
        thresholds=(FULL, STARVED_ISSUE, COVERED, TAKEN, QUEUED, IDLE),
        check=_occupancy,
        causes=(Cause("block-size", is_held_by_blocks),),
        place=AT_WARPS,
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
