"""Rules on what warps wait for: memory, arithmetic, barriers, instructions, constants, divergence."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.blocks import OCCUPANCY_GAP, SHORT_BLOCK, has_few_warps, is_between_blocks
from gpuprof.diagnose.case import SHARED_STALLS, Case
from gpuprof.diagnose.dram_latency import SLOWER_THAN_LOADS
from gpuprof.diagnose.far_memory import far_memory
from gpuprof.diagnose.needs import ISSUE as ISSUE_SLOTS
from gpuprof.diagnose.needs import LAUNCH, SM, Saving
from gpuprof.diagnose.rule import AT_MEMORY, Cause, Rule, Threshold, TreePlace, finding, percent
from gpuprof.diagnose.traffic import copies_ahead_case, late_share, memory_busy
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, Cases, Label
from gpuprof.model.session import Evidence, Finding

DOMINANT = percent("dominant-stall", 30.0)
NOTABLE = percent("notable-stall", 20.0)
ALONE = percent("one-block-barrier", 5.0)
ISSUE = percent("issue-slots", 80.0)
LATENCY_BOUND = percent("busiest-unit", 60.0)
MANY_WAVES = Threshold("many-waves", 8.0, "wave")
START_UP = Threshold("first-misses", 3e-6, "s")


def _memory_latency(case: Case) -> Iterator[Finding]:
    if not case.stalls or not case.issues_rarely:
        return
    shares = {reason: case.stall(reason) for reason in case.memory_stalls}
    reason = max(shares, key=lambda name: shares[name])
    if 100 * shares[reason] < DOMINANT.value:
        return
    busy = max((need for need in (case.memory_utilisation, case.l1_busy) if need is not None), default=None)
    is_full = busy is not None and 100 * busy >= LATENCY_BOUND.value
    headline = "main"
    why = "too-few-requests"
    if is_full:
        why = "unit-busy"
    elif busy is None or memory_busy(case) is None:
        # The level that was not collected can be the busy one.
        headline = why = "level-unknown"
    hit_rates = _hit_rates(case)
    of_reason = _case_name(reason)
    advice: tuple[str, ...] = (of_reason,)
    if reason == "long_scoreboard":
        advice = (of_reason, copies_ahead_case(case), "reuse")
    yield finding(
        case,
        Cases(
            headline=(headline, of_reason),
            why=("hit-rates", why) if hit_rates else (why,),
            action=(of_reason,),
            advice=advice,
        ),
        amounts=(Amount("share", shares[reason], "fraction"), *hit_rates, *_amounts(busy=busy if is_full else None)),
        labels=(Label("reasons", (reason,)),),
        confidence="inferred",
        saving=case.saving_of_wait(sum(shares.values())),
        evidence=(
            *(item for name in case.memory_stalls if shares[name] >= 0.05 for item in case.stall_evidence(name)),
            *case.issue_evidence(),
            *case.metric("l1tex__t_sector_hit_rate.pct", "l1-hit-rate", "%"),
            *case.metric("lts__t_sector_hit_rate.pct", "l2-hit-rate", "%"),
            *case.busiest_evidence("busiest-memory-unit", None, "sm"),
        ),
        place=case.place_of_stall(reason),
        severity="info" if is_full else None,
    )


def _case_name(reason: str) -> str:
    return reason.replace("_", "-")


def _amounts(**fractions: float | None) -> tuple[Amount, ...]:
    return tuple(Amount(name, value, "fraction") for name, value in fractions.items() if value is not None)


def _hit_rates(case: Case) -> tuple[Amount, ...]:
    """Return the hit rates of L1 and L2 if both are known.

    Stores count, too: these go on to L2 whether they hit or not.
    """
    rates = {moved.level: moved.hit_rate for moved in case.kernel.traffic if moved.hit_rate is not None}
    known = _amounts(l1_hits=rates.get("l1"), l2_hits=rates.get("l2"))
    return known if len(known) == 2 else ()


def _waiting(
    case: Case,
    reasons: tuple[str, ...],
    threshold: Threshold,
    cases: Cases = Cases(),  # noqa: B008
    *,
    amounts: tuple[Amount, ...] = (),
    confidence: Confidence = "inferred",
    is_fact: bool = False,
) -> Iterator[Finding]:
    """Report that warps wait for these reasons, if their share reaches the threshold while issue slots are idle."""
    share = case.stall(*reasons)
    if not case.stalls or not case.issues_rarely or 100 * share < threshold.value:
        return
    shown = tuple(reason for reason in reasons if case.stall(reason) > 0)
    yield finding(
        case,
        cases,
        amounts=(Amount("share", share, "fraction"), *amounts),
        labels=(Label("reasons", shown),),
        confidence=confidence,
        saving=case.saving_of_wait(share),
        evidence=(
            *(item for reason in shown for item in case.stall_evidence(reason, threshold.value)),
            *case.issue_evidence(),
        ),
        place=case.place_of_stall(*reasons),
        severity="info" if is_fact else None,
    )


def _dependency(case: Case) -> Iterator[Finding]:
    need = case.busiest_need
    yield from _waiting(case, ("wait",), DOMINANT, is_fact=need is not None and 100 * need >= LATENCY_BOUND.value)


def _barrier(case: Case) -> Iterator[Finding]:
    why, threshold = ["main"], NOTABLE
    amounts: tuple[Amount, ...] = ()
    if case.threads_per_block is not None:
        why.append("threads")
        amounts = (Amount("threads", float(case.threads_per_block), "thread"),)
    if _one_block_fits(case):
        why.append("one-block")
        threshold = ALONE
    reasons = ("barrier", "membar") if case.stall("membar") >= 0.05 else ("barrier",)
    cases = Cases(why=tuple(why))
    yield from _waiting(case, reasons, threshold, cases, amounts=amounts, confidence="measured")


def _one_block_fits(case: Case) -> bool:
    """Tell whether an SM can hold no second block."""
    theoretical, warps = case.kernel.occupancy.theoretical, case.warps_per_block
    limits = case.recorded.hardware.arch.limits
    if theoretical is None or not warps or "warps_per_sm" not in limits:
        return False
    return theoretical * limits["warps_per_sm"].value < 2 * warps


def _instruction_fetch(case: Case) -> Iterator[Finding]:
    branches = case.stall("branch_resolving")
    is_start_up = _is_start_up(case, case.stall("no_instruction")) and 100 * branches < NOTABLE.value
    reasons = ("no_instruction", "branch_resolving")
    yield from _waiting(case, reasons, NOTABLE, _start_up_cases(is_start_up), is_fact=is_start_up)


def _constant(case: Case) -> Iterator[Finding]:
    is_start_up = _is_start_up(case, case.stall("imc_miss"))
    yield from _waiting(case, ("imc_miss",), NOTABLE, _start_up_cases(is_start_up), is_fact=is_start_up)


def _start_up_cases(is_start_up: bool) -> Cases:
    if not is_start_up:
        return Cases()
    misses = "shared/first-misses"
    return Cases(why=("main", misses), action=(misses,), advice=(misses,))


def _is_start_up(case: Case, share: float) -> bool:
    """Tell whether the first misses of a launch can be all of a wait: those of the warps that start with empty caches.

    The first wave of warps waits for `share` of the time of all warps: so long for each that it is a few misses.
    """
    duration = case.kernel.duration_s
    if duration is None:
        return False
    occupancy, waves = case.kernel.occupancy, case.kernel.waves
    each = 1.0
    if occupancy.achieved is not None and occupancy.theoretical and waves:
        each = min(1.0, occupancy.achieved / (occupancy.theoretical * min(1.0, waves)))
    return share * duration * each <= START_UP.value


_FULL_OF_WARPS = 0.9
_OTHER_REASONS = (
    "short_scoreboard", "mio_throttle", "dispatch_stall", "sleeping", "membar", "branch_resolving", "gmma", "misc",
)  # fmt: skip
"""Stall reasons that no other rule reports."""


def _latency_bound(case: Case) -> Iterator[Finding]:
    """Nothing is busy. Name the main stall or short blocks where they are seen, else say what would tell.

    A unit that was not collected may be busy, unless a roofline has the work and the bytes.
    """
    is_known = bool({SM, ISSUE_SLOTS} & case.needs.keys()) and memory_busy(case) is not None
    if case.busiest is None or not (is_known or case.kernel.roofline):
        return
    busiest = max(case.busiest, case.busiest_need or 0.0)
    if 100 * busiest >= LATENCY_BOUND.value or far_memory(case) is not None:
        # `host-memory-traffic` says what warps wait for.
        return
    reasons = {reason: case.stall(reason) for reason in _OTHER_REASONS}
    reason = max(reasons, key=lambda name: reasons[name])
    named = 100 * reasons[reason] >= DOMINANT.value and case.issues_rarely
    headline = "main" if is_known else "collected"
    short = is_between_blocks(case)
    if not short and not named and _waits_in_line(case, busiest):
        yield _in_line(case, headline, busiest)
        return
    change = "main"
    if short:
        change = "short-blocks"
    elif not named and _is_full_and_issues(case):
        change = "issue-slots"
    slots, amounts = _warp_slots(case)
    yield finding(
        case,
        Cases(
            headline=(headline, "waiting", _case_name(reason)) if named else (headline,),
            why=(slots, *_stalls_unknown(case)),
            action=(change,),
            advice=(change,),
        ),
        amounts=(*_amounts(busiest=busiest, share=reasons[reason] if named else None), *amounts),
        labels=(Label("reasons", (reason,)),) if named else (),
        confidence="inferred" if case.stalls else "guess",
        saving=case.saving_of_wait(reasons[reason]) if named else _same_work(case),
        evidence=(
            *case.busiest_evidence(LATENCY_BOUND.name, LATENCY_BOUND.value),
            *(case.stall_evidence(reason) if named else ()),
            *case.issue_evidence(),
        ),
        place=case.place_of_stall(reason) if named else None,
        severity="info" if short else None,
    )


def issues_most(case: Case) -> bool:
    """Tell whether no other unit is as busy as the issue slots, which are a part of the SM's speed of light."""
    issued = case.needs.get(ISSUE_SLOTS)
    others = (need for unit, need in case.needs.items() if unit not in (ISSUE_SLOTS, SM, LAUNCH))
    return issued is not None and issued > max(others, default=0.0)


def _is_full_and_issues(case: Case) -> bool:
    """Tell whether instructions are what takes most, and no more warps can hide what they wait for."""
    return issues_most(case) and (case.kernel.occupancy.achieved or 0.0) >= _FULL_OF_WARPS


def _waits_in_line(case: Case, busiest: float) -> bool:
    """Tell whether the grid fills the GPU many times, and still nothing works: more in flight is not what lacks."""
    waves = _least_waves(case)
    return 100 * busiest < SLOWER_THAN_LOADS.value and waves is not None and waves >= MANY_WAVES.value


def _least_waves(case: Case) -> float | None:
    """Return how often the grid fills the GPU, at least: with as many SMs as any GPU of its architecture has."""
    if case.kernel.waves is not None:
        return case.kernel.waves
    most, slots = case.most_sms, case.recorded.hardware.arch.limits.get("warps_per_sm")
    if most is None or slots is None or not case.blocks or not case.warps_per_block:
        return None
    return case.blocks * case.warps_per_block / (most * slots.value)


def _in_line(case: Case, headline: str, busiest: float) -> Finding:
    """Guess that warps wait for each other, which more of them or more work of each makes worse."""
    change = ("in-line",)
    return finding(
        case,
        Cases(headline=(headline, *change), why=(*change, *_stalls_unknown(case)), action=change, advice=change),
        amounts=_amounts(busiest=busiest),
        confidence="guess",
        saving=_same_work(case),
        evidence=(
            *case.busiest_evidence(LATENCY_BOUND.name, SLOWER_THAN_LOADS.value),
            Evidence("", _least_waves(case) or 0.0, "wave", threshold=MANY_WAVES.value, role="least-waves"),
            *case.issue_evidence(),
        ),
    )


def _warp_slots(case: Case) -> tuple[str, tuple[Amount, ...]]:
    """Return the case of the wording that says whether warps are missing, as far as it is known, and its amounts."""
    cycles = case.block_cycles
    if cycles is not None and is_between_blocks(case):
        return "short-blocks", (Amount("lifetime", cycles, "cycle"),)
    achieved, theoretical = case.kernel.occupancy.achieved, case.kernel.occupancy.theoretical
    if achieved is None:
        return "main", ()
    if achieved >= _FULL_OF_WARPS:
        return "slots-taken", ()
    if theoretical is not None and achieved >= _FULL_OF_WARPS * theoretical:
        return "launch-allows", _amounts(theoretical=theoretical)
    return "slots-empty", _amounts(achieved=achieved)


def _stalls_unknown(case: Case) -> tuple[str, ...]:
    return () if case.stalls else ("stalls-unknown",)


def _same_work(case: Case) -> Saving:
    """Return what is left until the busiest unit is full, which a repair that takes work away can exceed.

    While SMs have no work no unit can be full, and more in flight does not change that: as long as they work, the unit
    is busier than over all of the time.
    """
    bound, late = case.saving({}), late_share(case)
    most = case.working_share - late
    left = case.working_share * (1.0 - (case.busiest_need or 0.0) / most) if late and most > 0 else 1.0
    saving = Saving(bound.fraction, "conditional", bound.remains, assumes=("same-instructions-and-bytes",))
    return saving.no_more_than(left)


def _behind_loads(case: Case) -> bool:
    """Tell whether warps wait for memory at least as much as at barriers: the slowest is then behind a load."""
    return case.stall(*case.memory_stalls) >= case.stall("barrier")


def _drains(case: Case) -> bool:
    """Tell whether ended warps that wait for their stores are most of what waits for memory."""
    return 2 * case.stall("drain") >= case.stall(*case.memory_stalls)


def _behind_shared(case: Case) -> bool:
    return case.stall(*SHARED_STALLS) >= case.stall("barrier")


def _waits_for_shared(case: Case) -> bool:
    """Tell whether the queue of shared memory and special functions is what most warps of `latency-bound` wait for."""
    share = {reason: case.stall(reason) for reason in _OTHER_REASONS}
    return max(share, key=lambda name: share[name]) in SHARED_STALLS


def _branches(case: Case) -> bool:
    return case.stall("branch_resolving") >= case.stall("no_instruction")


_OF_MEMORY = (
    "uncoalesced-global", "local-memory-spill", "host-memory-traffic", "narrow-access", "atomic-contention",
    "dram-bandwidth", "l2-bandwidth", "l1-bandwidth",
)  # fmt: skip
_OF_SHARED = ("shared-bank-conflict", "shared-bandwidth", "special-function-bound", "atomic-contention")
_FEW_WARPS = (
    Cause("low-occupancy"), Cause("small-grid"), Cause("short-kernel"), Cause("block-size", has_few_warps),
)  # fmt: skip
_NEW_BLOCKS = (Cause("short-blocks"),)
"""Each block starts and ends anew: it reads its parameters, fetches its code, and drains its stores."""

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
        check=_dependency,
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
        check=_instruction_fetch,
        causes=(Cause("branch-divergence", _branches), *_FEW_WARPS, *_NEW_BLOCKS),
        place=TreePlace(("no_instruction",), "issue"),
    ),
    Rule(
        "constant-miss",
        kind="symptom",
        thresholds=(NOTABLE, ISSUE, START_UP),
        check=_constant,
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
