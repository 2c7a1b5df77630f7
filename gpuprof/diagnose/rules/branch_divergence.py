"""The rule on idle lanes of a warp: inactive because of a divergent branch, or predicated off.

If one thread issues matrix instructions for the SM, few active threads are no waste.
"""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.bounds import bound_beside
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import LANES
from gpuprof.diagnose.facts.needs import ISSUE
from gpuprof.diagnose.facts.units import NOT_OF_LANES
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, cases_named, finding
from gpuprof.diagnose.thresholds import LOW, Threshold
from gpuprof.model.session import Evidence
from gpuprof.units import WARP_THREADS

THREADS = Threshold("active-threads", 24.0, "thread")

_SWITCHED_ON = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"

_UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"

_NOT_RELIEVED = ("dram", "l2", "l1", "lsu", "tex", "tensor", "launch")
"""Units that predicates do not relieve: memory, and matrix instructions of whole warps."""

_TCGEN05 = "UTC"
"""Prefix of tcgen05 instructions; one thread issues them (NVIDIA's Compute Triage Guide)."""


def _divergence(facts: KernelFacts, *, by_one_thread: bool = False) -> Findings:
    """Report that branches leave few threads active; as a fact if one thread issues for the SM."""
    threads, lanes = facts.number(*LANES), facts.lanes_of_block
    if not threads:
        return
    active = threads / lanes
    if WARP_THREADS * active >= THREADS.value:
        return
    cases = cases_named("branches")
    if by_one_thread:
        cases = replace(cases, why=("one-thread-issues",))
    yield finding(
        facts,
        cases,
        amounts=amounts_of("thread", threads=threads, lanes=lanes),
        confidence="measured",
        # Threads that no longer diverge can also share sectors.
        saving=bound_beside(facts, NOT_OF_LANES, active)
        .if_held(facts.working_share * (1.0 - active), "same-time-per-instruction")
        .only_if("same-bytes-through-l2-and-dram"),
        is_fact=by_one_thread,
        evidence=(
            *_active_threads(facts, THREADS.value * lanes / WARP_THREADS),
            *facts.metric(_UNIFORM, "uniform-branches", "%"),
        ),
        place=facts.place_of("smsp__branch_targets_threads_divergent"),
    )


def _active_threads(facts: KernelFacts, threshold: float | None = None) -> tuple[Evidence, ...]:
    """Return the threads that branches leave active, as evidence."""
    return facts.metric(facts.first_of(LANES), "active-threads", "thread", threshold)


def _predicated(facts: KernelFacts) -> Findings:
    """Report lanes that are predicated off, if branches alone leave enough threads active."""
    on, active, lanes = facts.number(_SWITCHED_ON), facts.number(*LANES), facts.lanes_of_block
    if not on or active is None:
        return
    part = on / lanes
    if active / lanes * WARP_THREADS < THREADS.value or part * WARP_THREADS >= THREADS.value:
        return
    yield finding(
        facts,
        cases_named("predicates"),
        amounts=amounts_of("thread", threads=on, lanes=lanes),
        confidence="inferred",
        saving=bound_beside(facts, _NOT_RELIEVED, part)
        .if_held(facts.working_share * (1.0 - part), "same-time-per-instruction")
        .only_if("same-accesses"),
        # Other instructions feed a busy tensor pipe, many of them from one thread.
        is_fact=facts.moves_bytes_well or facts.is_busiest("tensor"),
        evidence=(
            *facts.metric(_SWITCHED_ON, "predicated-on-threads", "thread", THREADS.value * lanes / WARP_THREADS),
            *_active_threads(facts),
        ),
    )


def _busy_issue_slots(facts: KernelFacts) -> Findings:
    """Report the cost of idle lanes if the issue slots are busiest, even if most lanes work."""
    active = facts.number(*LANES)
    counted = list(filter(None, (facts.number(_SWITCHED_ON), active)))
    if not counted or not facts.is_busiest(ISSUE):
        return
    issue, lanes, fewest = facts.needs[ISSUE], facts.lanes_of_block, min(counted)
    part = min(1.0, fewest / lanes)
    if WARP_THREADS * part < THREADS.value or (1.0 - part) * issue < LOW:
        return
    cases = cases_named("issue-slots")
    if active is not None and (1.0 - active / lanes) * issue < LOW:
        # Branches leave nearly all lanes active, so uniform ones would gain nothing.
        cases = replace(cases_named("predicates"), headline=cases.headline, why=("issue-slots-predicates",))
    yield finding(
        facts,
        cases,
        amounts=amounts_of("thread", threads=fewest, lanes=lanes),
        confidence="inferred",
        saving=bound_beside(facts, _NOT_RELIEVED, part).if_held((1.0 - part) * issue, "same-time-without-issue"),
        is_fact=facts.moves_bytes_well,
        evidence=(
            *facts.metric(_SWITCHED_ON, "predicated-on-threads", "thread"),
            *_active_threads(facts),
            *facts.metric(_UNIFORM, "uniform-branches", "%"),
            *facts.issue_evidence(),
        ),
        place=facts.place_of("smsp__branch_targets_threads_divergent"),
    )


def is_issued_by_one_thread(facts: KernelFacts) -> bool:
    """Return whether one thread issues the matrix instructions: few threads are then no waste.

    If the opcodes are not known, judge by a busy tensor pipe on a GPU that has such instructions.
    """
    opcodes = facts.opcodes()
    if opcodes:
        return any(count > 0 and name.startswith(_TCGEN05) for name, count in opcodes.items())
    has_them = any(key.instruction == "tcgen05" for key in facts.arch.compute)
    return has_them and bool(facts.pipe("tensor"))


def _idle_lanes(facts: KernelFacts) -> Findings:
    """Report lanes that wait for another branch; otherwise lanes that are predicated off."""
    if is_issued_by_one_thread(facts):
        yield from _divergence(facts, by_one_thread=True)
        return
    yield from _busy_issue_slots(facts)
    yield from _divergence(facts)
    yield from _predicated(facts)


RULE = Rule(
    "branch-divergence",
    thresholds=(THREADS,),
    check=_idle_lanes,
    metrics=(LANES[0], _SWITCHED_ON, _UNIFORM),
    place=TreePlace(("branch_resolving",), "issue"),
)
