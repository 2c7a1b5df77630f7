"""Rules on stalls of warps: memory, arithmetic, barriers, instructions, constants, divergence."""

from __future__ import annotations

from gpuprof.diagnose.blocks import OCCUPANCY_GAP, SHORT_BLOCK, has_few_warps, is_between_blocks
from gpuprof.diagnose.case import SHARED_STALLS, WELL_USED, Case
from gpuprof.diagnose.dram_latency import SLOWER_THAN_LOADS, cycles_per_load, queues_at_dram
from gpuprof.diagnose.far_memory import far_memory
from gpuprof.diagnose.needs import ISSUE as ISSUE_SLOTS
from gpuprof.diagnose.needs import SM, Saving
from gpuprof.diagnose.rule import (
    AT_MEMORY,
    Cause,
    Findings,
    Rule,
    Threshold,
    TreePlace,
    amounts_of,
    cases_of,
    finding,
    labels_of,
    percent,
)
from gpuprof.diagnose.traffic import copies_ahead_case, late_share, memory_busy
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, Cases

DOMINANT = percent("dominant-stall", 30.0)
NOTABLE = percent("notable-stall", 20.0)
ALONE = percent("one-block-barrier", 5.0)
ISSUE = percent("issue-slots", 80.0)
LATENCY_BOUND = percent("busiest-unit", 60.0)
MANY_WAVES = Threshold("many-waves", 8.0, "wave")
START_UP = Threshold("first-misses", 3e-6, "s")


def _memory_latency(case: Case) -> Findings:
    reason = max(case.memory_stalls, key=case.stall)
    if not case.issues_rarely or not DOMINANT.is_reached(case.stall(reason)):
        return
    busy = max(case.memory_utilisation or 0.0, case.l1_busy or 0.0)
    is_full = LATENCY_BOUND.is_reached(busy)
    is_load = reason == "long_scoreboard"
    queues = is_load and queues_at_dram(case)
    headline, why = "main", "too-few-requests" if is_load else "room"
    if not is_full and memory_busy(case) is None:
        # A level that was not collected can be the busy one.
        headline = why = "level-unknown"
    if is_full:
        why = "unit-busy"
    elif queues:
        why = "queue"
    reasons = [why]
    l1_hits, l2_hits = case.hit_rates.get("l1"), case.hit_rates.get("l2")
    if l1_hits is not None and l2_hits is not None:
        reasons = ["hit-rates", why]
    advice = [_case_name(reason)]
    if queues or (reason in ("long_scoreboard", "drain") and busy >= WELL_USED):
        # More accesses in flight would only wait in the queue.
        advice = ["fewer-bytes", "reuse"]
    elif is_load:
        advice += (copies_ahead_case(case), "reuse")
    yield finding(
        case,
        Cases(
            headline=(headline, _case_name(reason)),
            why=tuple(reasons),
            action=(advice[0],),
            advice=tuple(advice),
        ),
        amounts=(
            *amounts_of(share=case.stall(reason), busy=busy if is_full else None, l1_hits=l1_hits, l2_hits=l2_hits),
            *amounts_of("cycle", waited=cycles_per_load(case) if why == "queue" else None),
        ),
        labels=labels_of(reasons=(reason,)),
        confidence="inferred",
        saving=case.saving_of_wait(case.stall(*case.memory_stalls)),
        evidence=(
            *case.stall_evidence(
                *(name for name in case.memory_stalls if case.stall(name) >= _SHOWN), threshold=DOMINANT.value
            ),
            *case.issue_evidence(ISSUE.value),
            *case.metrics_as(_HIT_RATES, "%"),
            *case.busiest_evidence("busiest-memory-unit", None, "sm"),
        ),
        place=case.place_of_stall(reason),
        is_fact=is_full,
    )


_HIT_RATES = {"l1tex__t_sector_hit_rate.pct": "l1-hit-rate", "lts__t_sector_hit_rate.pct": "l2-hit-rate"}
_SHOWN = 0.05
"""Smaller shares of stalls are not shown beside a larger one."""


def _case_name(reason: str) -> str:
    return reason.replace("_", "-")


def _waiting(
    case: Case,
    reasons: tuple[str, ...],
    threshold: Threshold,
    cases: Cases = Cases(),  # noqa: B008
    *,
    amounts: tuple[Amount, ...] = (),
    confidence: Confidence = "inferred",
    is_fact: bool = False,
) -> Findings:
    """Report that warps wait for these reasons often enough while issue slots are idle."""
    share = case.stall(*reasons)
    if not case.issues_rarely or not threshold.is_reached(share):
        return
    shown = tuple(reason for reason in reasons if case.stall(reason) > 0)
    yield finding(
        case,
        cases,
        amounts=(*amounts_of(share=share), *amounts),
        labels=labels_of(reasons=shown),
        confidence=confidence,
        saving=case.saving_of_wait(share),
        evidence=(
            *case.stall_evidence(*shown, threshold=threshold.value),
            *case.issue_evidence(ISSUE.value),
        ),
        place=case.place_of_stall(*reasons),
        is_fact=is_fact,
    )


def _barrier(case: Case) -> Findings:
    reasons, why, advice, threshold = ["barrier"], ["main"], ["main"], NOTABLE
    if case.threads_per_block is not None:
        why.append("threads")
    if _one_block_fits(case):
        why.append("one-block")
        threshold = ALONE
    if case.stall("membar") >= _SHOWN:
        reasons.append("membar")
        why.append("fences")
        advice.append("fences")
    cases = Cases(why=tuple(why), advice=tuple(advice))
    if "membar" in reasons and case.stall("barrier") < _SHOWN:
        fences = ("fences",)
        cases = Cases(why=fences, action=fences, advice=fences)
    amounts = amounts_of("thread", threads=case.threads_per_block)
    yield from _waiting(case, tuple(reasons), threshold, cases, amounts=amounts, confidence="measured")


def _one_block_fits(case: Case) -> bool:
    """Return whether only one block fits in an SM."""
    theoretical, warps, room = case.occupancy.theoretical, case.warps_per_block, case.warps_per_sm
    if theoretical is None or room is None or not warps:
        return False
    return theoretical * room < 2 * warps


def _misses(case: Case, reason: str, *others: str) -> Findings:
    """Report waits for instructions or constants; as a fact if first misses explain them."""
    cases = Cases()
    is_start_up = _is_start_up(case, case.stall(reason)) and not NOTABLE.is_reached(case.stall(*others))
    if is_start_up:
        cases = cases_of("shared/first-misses", why=("main", "shared/first-misses"))
    yield from _waiting(case, (reason, *others), NOTABLE, cases, is_fact=is_start_up)


def _is_start_up(case: Case, share: float) -> bool:
    """Return whether the first misses of a launch can explain a whole wait.

    The first wave of warps waits for `share` of the time of all warps. That is a few misses of each
    warp, if it is short enough.
    """
    duration, occupancy, waves = case.kernel.duration_s, case.occupancy, case.waves
    if duration is None:
        return False
    each = 1.0
    if occupancy.achieved is not None and occupancy.theoretical and waves:
        each = min(1.0, occupancy.achieved / (occupancy.theoretical * min(1.0, waves)))
    return share * duration * each <= START_UP.value


_FULL_OF_WARPS = 0.9
_OTHER_REASONS = (
    "short_scoreboard", "mio_throttle", "dispatch_stall", "sleeping", "membar", "branch_resolving", "gmma", "misc",
)  # fmt: skip
"""Stall reasons that no other rule reports."""


def _latency_bound(case: Case) -> Findings:
    """Report that nothing is busy, with the main stall or short blocks if they are seen.

    A unit that was not collected may be busy, unless a roofline has the work and the bytes.
    """
    is_known = bool({SM, ISSUE_SLOTS} & case.needs.keys()) and memory_busy(case) is not None
    if case.busiest is None or not (is_known or case.kernel.roofline):
        return
    busiest = max(case.busiest, case.busiest_need or 0.0)
    if LATENCY_BOUND.is_reached(busiest) or far_memory(case) is not None:
        # `host-memory-traffic` reports the reason.
        return
    reason = _other_reason(case)
    named: tuple[str, ...] = ()
    if case.issues_rarely and DOMINANT.is_reached(case.stall(reason)):
        named = (reason,)
    short = is_between_blocks(case)
    # The grid fills the GPU many times, and still nothing works: more in flight would not help.
    in_line = not (short or named or SLOWER_THAN_LOADS.is_reached(busiest)) and _least_waves(case) >= MANY_WAVES.value
    headline = ["main" if is_known else "collected"]
    slots, amounts = _warp_slots(case)
    change, limit = "main", LATENCY_BOUND
    if short:
        change = "short-blocks"
    elif named:
        headline += ["waiting", _case_name(reason)]
    elif in_line:
        # Warps wait for each other: more warps, or more work of each, make that worse.
        change = slots = "in-line"
        headline.append(change)
        limit = SLOWER_THAN_LOADS
        amounts = ()
    elif case.is_busiest(ISSUE_SLOTS) and (case.occupancy.achieved or 0.0) >= _FULL_OF_WARPS:
        # Instructions take most of the time, and no more warps fit to hide latencies.
        change = "issue-slots"
    yield finding(
        case,
        cases_of(change, tuple(headline), (slots,) if case.stalls else (slots, "stalls-unknown")),
        amounts=(*amounts_of(busiest=busiest, share=case.stall(*named) or None), *amounts),
        labels=labels_of(reasons=named),
        confidence="inferred" if case.stalls and not in_line else "guess",
        saving=case.saving_of_wait(case.stall(reason)) if named else _same_work(case),
        evidence=(
            *case.busiest_evidence(LATENCY_BOUND.name, limit.value),
            *case.stall_evidence(*named, threshold=DOMINANT.value),
            *((MANY_WAVES.evidence(_least_waves(case), "least-waves"),) if in_line else ()),
            *case.issue_evidence(ISSUE.value),
        ),
        place=case.place_of_stall(*named),
        is_fact=short,
    )


def _other_reason(case: Case) -> str:
    return max(_OTHER_REASONS, key=case.stall)


def _least_waves(case: Case) -> float:
    """Return the waves, else those on the most SMs of the architecture; 0 if unknown."""
    if case.waves is not None:
        return case.waves
    room = (case.most_sms or 0.0) * (case.warps_per_sm or 0.0)
    if not room:
        return 0.0
    return (case.warps or 0) / room


def _warp_slots(case: Case) -> tuple[str, tuple[Amount, ...]]:
    """Return the case of the wording on missing warps, if that is known, and its amounts."""
    if is_between_blocks(case):
        return "short-blocks", amounts_of("cycle", lifetime=case.block_cycles)
    achieved, theoretical = case.occupancy.achieved, case.occupancy.theoretical
    if achieved is None:
        return "main", ()
    if achieved >= _FULL_OF_WARPS:
        return "slots-taken", ()
    if theoretical is not None and achieved >= _FULL_OF_WARPS * theoretical:
        return "launch-allows", amounts_of(theoretical=theoretical)
    return "slots-empty", amounts_of(achieved=achieved)


def _same_work(case: Case) -> Saving:
    """Return the saving until the busiest unit is full; a fix that removes work can exceed it.

    No unit can be full while SMs have no work, and more in flight does not change that. While SMs
    work, the unit is busier than on average over the whole time.
    """
    saving, late = case.saving({}).only_if("same-instructions-and-bytes"), late_share(case)
    most = case.working_share - late
    if not late or most <= 0:
        return saving
    return saving.no_more_than(case.working_share * (1.0 - (case.busiest_need or 0.0) / most))


def _behind_loads(case: Case) -> bool:
    """Return whether warps wait for memory at least as much as at barriers."""
    return case.stall(*case.memory_stalls) >= case.stall("barrier")


def _drains(case: Case) -> bool:
    """Return whether most warps that wait for memory are finished and wait for their stores."""
    return 2 * case.stall("drain") >= case.stall(*case.memory_stalls)


def _behind_shared(case: Case) -> bool:
    return case.stall(*SHARED_STALLS) >= case.stall("barrier")


def _waits_for_shared(case: Case) -> bool:
    """Return whether the main other wait is for the queue of shared memory and functions."""
    return _other_reason(case) in SHARED_STALLS


_OF_MEMORY = (
    "uncoalesced-global", "local-memory-spill", "host-memory-traffic", "narrow-access", "atomic-contention",
    "dram-bandwidth", "l2-bandwidth", "l1-bandwidth",
)  # fmt: skip
_OF_SHARED = ("shared-bank-conflict", "shared-bandwidth", "special-function-bound", "atomic-contention")
_FEW_WARPS = (
    Cause("low-occupancy"), Cause("small-grid"), Cause("short-kernel"), Cause("block-size", has_few_warps),
)  # fmt: skip
_NEW_BLOCKS = (Cause("short-blocks"),)
"""Every block reads its parameters, fetches its code and drains its stores."""

RULES = (
    Rule(
        "memory-latency",
        kind="symptom",
        thresholds=(DOMINANT, ISSUE, LATENCY_BOUND),
        check=_memory_latency,
        causes=(*map(Cause, _OF_MEMORY), *_FEW_WARPS, Cause("short-blocks", _drains)),
        place=AT_MEMORY,
    ),
    Rule(
        "dependency-latency",
        kind="symptom",
        thresholds=(DOMINANT, ISSUE, LATENCY_BOUND),
        check=lambda case: _waiting(case, ("wait",), DOMINANT, is_fact=LATENCY_BOUND.is_reached(case.busiest_need)),
        causes=_FEW_WARPS,
        place=TreePlace(("wait",), "issue"),
    ),
    Rule(
        "barrier-wait",
        kind="symptom",
        thresholds=(NOTABLE, ALONE, ISSUE),
        check=_barrier,
        causes=(
            *(Cause(rule, _behind_loads) for rule in ("memory-latency", *_OF_MEMORY)),
            *(Cause(rule, _behind_shared) for rule in _OF_SHARED),
            Cause("reduction-tree"),
            Cause("branch-divergence"),
            Cause("load-imbalance"),
            *_FEW_WARPS,
        ),
        place=TreePlace(("barrier",), "issue"),
    ),
    Rule(
        "instruction-fetch",
        kind="symptom",
        thresholds=(NOTABLE, ISSUE, START_UP),
        check=lambda case: _misses(case, "no_instruction", "branch_resolving"),
        causes=(
            Cause("branch-divergence", lambda case: case.stall("branch_resolving") >= case.stall("no_instruction")),
            *_FEW_WARPS,
            *_NEW_BLOCKS,
        ),
        place=TreePlace(("no_instruction",), "issue"),
    ),
    Rule(
        "constant-miss",
        kind="symptom",
        thresholds=(NOTABLE, ISSUE, START_UP),
        check=lambda case: _misses(case, "imc_miss"),
        causes=(*_FEW_WARPS, *_NEW_BLOCKS),
        place=TreePlace(("imc_miss",), "issue"),
    ),
    Rule(
        "latency-bound",
        kind="symptom",
        thresholds=(LATENCY_BOUND, DOMINANT, SHORT_BLOCK, OCCUPANCY_GAP, SLOWER_THAN_LOADS, MANY_WAVES),
        check=_latency_bound,
        causes=(
            *_FEW_WARPS,
            Cause("tail-effect"),
            Cause("load-imbalance"),
            *_NEW_BLOCKS,
            Cause("reduction-tree"),
            *(Cause(rule, _waits_for_shared) for rule in _OF_SHARED),
        ),
        place=TreePlace((), "issue"),
    ),
)
