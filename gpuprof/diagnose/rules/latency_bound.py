"""No unit is busy and no other rule has the reason."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, bound_of_wait, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import FULL_OF
from gpuprof.diagnose.facts.unit_names import ISSUE, SM
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import DOMINANT, OCCUPANCY_GAP, SHORT_BLOCK, SLOWER_THAN_LOADS, Threshold, context
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, LATENCY_BOUND, stall_case

MANY_WAVES = Threshold("many-waves", 8.0, "wave")


def _latency_bound(facts: KernelFacts) -> Findings:
    """Report that nothing is busy, with the main stall that no other rule reports.

    A unit that was not collected may be busy, unless a roofline has the work and the bytes. If few
    warps are enough by design, their stalls do not show the reason.
    """
    is_known = bool({SM, ISSUE} & facts.needs.keys()) and facts.memory_busy is not None
    if facts.busiest is None or not (is_known or facts.kernel.roofline):
        return
    busiest = max(facts.busiest, facts.busiest_need or 0.0)
    is_between_blocks = facts.occupancy_gap is not None and facts.idles_between_blocks
    if LATENCY_BOUND.is_reached(busiest) or is_between_blocks or not facts.issues_rarely:
        # `short-blocks` reports the reason, or warps do not wait while SMs have work.
        return
    reason = facts.other_reason
    is_named = DOMINANT.is_reached(facts.stall(reason)) and not facts.needs_few_warps
    named = (reason,) if is_named else ()
    headline = ["main" if is_known else "collected"]
    change = _change(facts, busiest)
    why = ["main" if change == "registers" else change]
    if not facts.stalls:
        why.append("stalls-unknown")
    elif facts.waves is None or facts.occupancy.achieved is None:
        why.append("launch-unknown")
    if is_named:
        headline += ["waiting", stall_case(reason)]
    elif change == "in-line":
        headline.append(change)
    yield finding(
        facts,
        cases_of(change, tuple(headline), tuple(why)),
        amounts=amounts_of(busiest=busiest, share=facts.stall(*named) or None),
        labels=labels_of(reasons=named),
        confidence="inferred" if why == ["main"] else "guess",
        saving=bound_of_wait(facts, facts.stall(reason)) if is_named else _same_work(facts),
        evidence=facts.busiest_evidence(LATENCY_BOUND.name, LATENCY_BOUND.value)
        + facts.stall_evidence(*named, threshold=DOMINANT.value)
        + context("waves", facts.waves, "wave")
        + facts.issue_evidence(ISSUES_OFTEN.value),
        place=facts.code.place_of_stall(*named),
    )


def _change(facts: KernelFacts, busiest: float) -> str:
    """Return the case of the change that hides latencies on this launch.

    If the grid fills the GPU many times and still hardly anything works, warps wait for each other,
    and more in flight, or more work of each, makes that worse. Fewer registers help no launch whose
    warp slots are empty anyway.
    """
    if not SLOWER_THAN_LOADS.is_reached(busiest):
        if facts.waves_at_least >= MANY_WAVES.value:
            return "in-line"
        if facts.waves is None and not facts.is_under_a_wave:
            return "in-line-or-few"
    if facts.needs_few_warps:
        return "few-warps"
    all_fit = facts.is_under_a_wave or (facts.occupancy.theoretical or 1.0) >= FULL_OF
    if "registers" in facts.occupancy.limiters and facts.is_taken and not all_fit:
        # More work per thread takes registers, and so leaves room for fewer warps.
        return "registers"
    return "main"


def _same_work(facts: KernelFacts) -> Saving:
    """Return the saving until the busiest unit is full; a fix that removes work can exceed it.

    No unit can be full while SMs have no work, and more in flight does not change that. While SMs
    work, the unit is busier than on average over the whole time.
    """
    saving, late = speedup_bound(facts).only_if("same-instructions-and-bytes"), facts.late_share
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
