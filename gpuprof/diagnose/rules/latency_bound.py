"""No unit is busy and no other rule has the reason."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, bound_of_wait, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE, SM
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import DOMINANT, OCCUPANCY_GAP, SHORT_BLOCK, SLOWER_THAN_LOADS, Threshold
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, LATENCY_BOUND, stall_case
from gpuprof.model.findings import Amount

MANY_WAVES = Threshold("many-waves", 8.0, "wave")

_FULL_OF_WARPS = 0.9


def _latency_bound(facts: KernelFacts) -> Findings:
    """Report that nothing is busy, with the main stall or short blocks if they are seen.

    A unit that was not collected may be busy, unless a roofline has the work and the bytes.
    """
    is_known = bool({SM, ISSUE} & facts.needs.keys()) and facts.memory_busy is not None
    if facts.busiest is None or not (is_known or facts.kernel.roofline):
        return
    busiest = max(facts.busiest, facts.busiest_need or 0.0)
    if LATENCY_BOUND.is_reached(busiest) or facts.far_memory is not None:
        # `host-memory-traffic` reports the reason.
        return
    reason = facts.other_reason
    named: tuple[str, ...] = ()
    if facts.issues_rarely and DOMINANT.is_reached(facts.stall(reason)):
        named = (reason,)
    short = facts.is_between_blocks
    # The grid fills the GPU many times, and still nothing works: more in flight would not help.
    in_line = not (short or named or SLOWER_THAN_LOADS.is_reached(busiest)) and _least_waves(facts) >= MANY_WAVES.value
    headline = ["main" if is_known else "collected"]
    slots, amounts = _warp_slots(facts)
    change, limit = "main", LATENCY_BOUND
    if short:
        change = "short-blocks"
    elif named:
        headline += ["waiting", stall_case(reason)]
    elif in_line:
        # Warps wait for each other: more warps, or more work of each, make that worse.
        change = slots = "in-line"
        headline.append(change)
        limit = SLOWER_THAN_LOADS
        amounts = ()
    elif facts.is_busiest(ISSUE) and (facts.occupancy.achieved or 0.0) >= _FULL_OF_WARPS:
        # Instructions take most of the time, and no more warps fit to hide latencies.
        change = "issue-slots"
    yield finding(
        facts,
        cases_of(change, tuple(headline), (slots,) if facts.stalls else (slots, "stalls-unknown")),
        amounts=(*amounts_of(busiest=busiest, share=facts.stall(*named) or None), *amounts),
        labels=labels_of(reasons=named),
        confidence="inferred" if facts.stalls and not in_line else "guess",
        saving=bound_of_wait(facts, facts.stall(reason)) if named else _same_work(facts),
        evidence=(
            *facts.busiest_evidence(LATENCY_BOUND.name, limit.value),
            *facts.stall_evidence(*named, threshold=DOMINANT.value),
            *((MANY_WAVES.evidence(_least_waves(facts), "least-waves"),) if in_line else ()),
            *facts.issue_evidence(ISSUES_OFTEN.value),
        ),
        place=facts.place_of_stall(*named),
        is_fact=short,
    )


def _least_waves(facts: KernelFacts) -> float:
    """Return the waves, else those on the most SMs of the architecture; 0 if unknown."""
    if facts.waves is not None:
        return facts.waves
    room = (facts.most_sms or 0.0) * (facts.warps_per_sm or 0.0)
    if not room:
        return 0.0
    return (facts.warps or 0) / room


def _warp_slots(facts: KernelFacts) -> tuple[str, tuple[Amount, ...]]:
    """Return the case of the wording on missing warps, if that is known, and its amounts."""
    if facts.is_between_blocks:
        return "short-blocks", amounts_of("cycle", lifetime=facts.block_cycles)
    achieved, theoretical = facts.occupancy.achieved, facts.occupancy.theoretical
    if achieved is None:
        return "main", ()
    if achieved >= _FULL_OF_WARPS:
        return "slots-taken", ()
    if theoretical is not None and achieved >= _FULL_OF_WARPS * theoretical:
        return "launch-allows", amounts_of(theoretical=theoretical)
    return "slots-empty", amounts_of(achieved=achieved)


def _same_work(facts: KernelFacts) -> Saving:
    """Return the saving until the busiest unit is full; a fix that removes work can exceed it.

    No unit can be full while SMs have no work, and more in flight does not change that. While SMs
    work, the unit is busier than on average over the whole time.
    """
    saving, late = speedup_bound(facts, {}).only_if("same-instructions-and-bytes"), facts.late_share
    most = facts.working_share - late
    if not late or most <= 0:
        return saving
    return saving.no_more_than(facts.working_share * (1.0 - (facts.busiest_need or 0.0) / most))


RULE = Rule(
    "latency-bound",
    kind="symptom",
    thresholds=(LATENCY_BOUND, DOMINANT, SHORT_BLOCK, OCCUPANCY_GAP, SLOWER_THAN_LOADS, MANY_WAVES),
    check=_latency_bound,
    place=TreePlace((), "issue"),
)
