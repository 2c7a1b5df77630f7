"""The rule on idle lanes of a warp: inactive because of a divergent branch, or predicated off.

If one thread issues copies or matrix instructions for many, few active threads are no waste.
"""

from __future__ import annotations

from gpuprof.diagnose.bounds import OTHER_WAITS, bound_beside
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import LANES, UNIFORM_BRANCHES
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.facts.units import NOT_OF_LANES
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, cases_named, certainty, finding
from gpuprof.diagnose.thresholds import LOW, Threshold, percent
from gpuprof.units import WARP_THREADS

THREADS = Threshold("active-threads", 24.0, "thread")

UNIFORM = percent("uniform", 95.0)

_SWITCHED_ON = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"

_NOT_OF_PREDICATES = (*NOT_OF_LANES, "l1", "lsu", "tex")
"""Units that predicates do not relieve: lanes that are off access nothing."""


def _idle_lanes(facts: KernelFacts) -> Findings:
    """Report lanes that branches leave idle; else those that predicates switch off; else the cost
    of a few idle lanes if issue slots are the busiest unit."""
    if facts.needs_few_warps is not False:
        return
    lanes = facts.lanes_of_block
    active, on = facts.number(*LANES), facts.number(_SWITCHED_ON)
    fewest = min(filter(None, (active, on)), default=lanes)
    cost = (1.0 - fewest / lanes) * facts.need(ISSUE)
    threshold = THREADS.value * lanes / WARP_THREADS
    if active and active < threshold:
        fewest = active
        # Lanes that rarely part at a branch are idle because they have ended, or skip a long part.
        change = "ended" if (facts.number(UNIFORM_BRANCHES) or 0.0) >= UNIFORM.value else "branches"
    elif active and on and on < threshold:
        change = "predicates"
    elif facts.is_busiest(ISSUE) and cost >= LOW:
        change = "issue-slots"
    else:
        return
    part = fewest / lanes
    is_inactive = change in ("ended", "branches")
    kept = NOT_OF_LANES if is_inactive else _NOT_OF_PREDICATES
    condition = "same-bytes-through-l2-and-dram" if is_inactive else "same-accesses"
    bound, time = bound_beside(facts, kept, part), facts.time_of_instructions
    if change == "issue-slots":
        saving = bound.if_held(cost, "same-time-without-issue")
    elif facts.waits_beside_instructions and time is not None:
        saving = bound.if_held(time * (1.0 - part), OTHER_WAITS).only_if(condition)
    else:
        saving = bound.if_held(facts.working_share * (1.0 - part), "same-time-per-instruction").only_if(condition)
    confidence = certainty(facts, "measured" if is_inactive else "inferred")
    yield finding(
        facts,
        cases_named(change),
        amounts=amounts_of("thread", threads=fewest, lanes=lanes),
        confidence="guess" if facts.waits_beside_instructions else confidence,
        saving=saving,
        # Other instructions feed a busy tensor pipe, many of them from one thread.
        is_fact=facts.moves_bytes_well or facts.is_busiest("tensor"),
        evidence=facts.metric(facts.first_of(LANES), "active-threads", "thread", threshold)
        + facts.metric(_SWITCHED_ON, "predicated-on-threads", "thread", threshold)
        + facts.metric(UNIFORM_BRANCHES, "uniform-branches", "%")
        + facts.issue_evidence(),
        place=facts.code.place_of("smsp__branch_targets_threads_divergent"),
    )


RULE = Rule(
    "branch-divergence",
    thresholds=(THREADS, UNIFORM),
    check=_idle_lanes,
    metrics=(LANES[0], _SWITCHED_ON, UNIFORM_BRANCHES),
    place=TreePlace(("branch_resolving",), "issue"),
)
