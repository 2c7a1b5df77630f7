"""The rule on lanes of a warp that do nothing: in another branch, or switched off by a predicate.

Beside matrix instructions that one thread issues for the SM, few active threads are no waste.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.diagnose.blocks import LANES, NOT_OF_LANES, lanes_of_block, moves_bytes_well
from gpuprof.diagnose.case import Case, opcode_of
from gpuprof.diagnose.latency import issues_most
from gpuprof.diagnose.needs import ISSUE, LAUNCH, SM
from gpuprof.diagnose.rule import LOW, Cause, Rule, RuleVerdict, Threshold, TreePlace
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.session import Evidence
from gpuprof.units import WARP_THREADS

THREADS = Threshold(
    "active threads per instruction", 24.0, "thread", reason="three of four threads of a warp; NVIDIA's rule uses it"
)

_SWITCHED_ON = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
_UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"
_STAYS = ("dram", "l2", "l1", "lsu", "tex", "tensor", "launch")
"""What predicates do not touch: accesses are those of lanes that are on, and matrix instructions take whole warps."""
_BY_ONE_THREAD = "UTC"
"""How matrix instructions of tcgen05 begin: one thread issues them for the SM (NVIDIA's Compute Triage Guide)."""


class LaneCount(NamedTuple):
    """Threads of an average instruction, and their metric."""

    threads: float
    metric: str


def _active_lanes(case: Case) -> LaneCount | None:
    """Return the threads that no branch left behind; None where they were not counted."""
    for name in LANES:
        if (threads := case.number(name)) is not None:
            return LaneCount(threads, name)
    return None


def _switched_on(case: Case) -> LaneCount | None:
    on = case.number(_SWITCHED_ON)
    return LaneCount(on, _SWITCHED_ON) if on is not None else None


def _divergence(case: Case) -> Iterator[RuleVerdict]:
    lane = _active_lanes(case)
    if lane is None or not lane.threads:
        return
    threads = lane.threads
    filled = lanes_of_block(case) or float(WARP_THREADS)
    active = threads / filled
    if WARP_THREADS * active >= THREADS.value:
        return
    relieved = {unit: active for unit in case.needs if unit not in NOT_OF_LANES}
    yield RuleVerdict(
        headline=f"Branch divergence: {threads:.3g} of {filled:.3g} threads active per instruction",
        why="Threads of a warp take different branches, so the warp executes all of them one after the other.",
        action="Make branches uniform per warp: sort or bin the data by the condition",
        advice="Let whole warps decide alike: sort or bin the data by branch, move the condition to the block, or "
        "replace a short branch by a select.",
        confidence="measured",
        # Threads that go together again can also share sectors.
        saving=case.saving(relieved)
        .if_held(case.working_share * (1.0 - active), "the same time per instruction")
        .only_if("the same bytes through L2 and DRAM"),
        evidence=(
            Evidence(
                lane.metric,
                threads,
                "thread",
                threshold=THREADS.value * filled / WARP_THREADS,
                meaning="active threads per instruction",
            ),
            *case.metric(_UNIFORM, "uniform branches", "%"),
        ),
        location=case.place_of("smsp__branch_targets_threads_divergent"),
    )


def _predicated(case: Case) -> Iterator[RuleVerdict]:
    """Say that predicates switch lanes off, where branches alone do not leave few threads active."""
    switched, alive, lanes = _switched_on(case), _active_lanes(case), lanes_of_block(case) or float(WARP_THREADS)
    if switched is None or alive is None:
        return
    on, active = switched.threads, alive.threads
    if not on or active / lanes * WARP_THREADS < THREADS.value or on / lanes * WARP_THREADS >= THREADS.value:
        return
    part = on / lanes
    yield RuleVerdict(
        headline=f"Predication: {on:.3g} of {lanes:.3g} threads predicated on per instruction",
        why="The compiler predicates short branches: the whole warp issues their instructions, and a predicate "
        "switches some threads off. Instructions that no thread of a warp needs count, too.",
        action="Make conditions uniform per warp, so that whole warps skip the instructions",
        advice="Give work to consecutive threads, so that whole warps skip the rest, move bounds checks out of the "
        "loop, and combine the values of a warp with shuffles instead of a step for ever fewer threads.",
        confidence="inferred",
        saving=case.saving({unit: part for unit in case.needs if unit not in _STAYS})
        .if_held(case.working_share * (1.0 - part), "the same time per instruction")
        .only_if("the same accesses"),
        evidence=(
            Evidence(
                switched.metric,
                on,
                "thread",
                threshold=THREADS.value * lanes / WARP_THREADS,
                meaning="predicated-on threads per instruction",
            ),
            Evidence(alive.metric, active, "thread", threshold=None, meaning="active threads per instruction"),
        ),
        settled=moves_bytes_well(case) or _multiplies_matrices(case),
    )


def _of_issue_slots(case: Case) -> Iterator[RuleVerdict]:
    """Say what idle lanes cost where nothing is as busy as the issue slots, though most lanes work."""
    counted = [lane for lane in (_switched_on(case), _active_lanes(case)) if lane is not None and lane.threads]
    if not counted or not issues_most(case):
        return
    issue, lanes = case.needs[ISSUE], lanes_of_block(case) or float(WARP_THREADS)
    fewest = min(counted, key=lambda lane: lane.threads)
    part = min(1.0, fewest.threads / lanes)
    if WARP_THREADS * part < THREADS.value or (1.0 - part) * issue < LOW:
        return
    yield RuleVerdict(
        headline=f"Idle lanes: {fewest.threads:.3g} of {lanes:.3g} threads work per instruction, and the issue slots "
        "are the busiest unit",
        why="Branches and predicates leave lanes without work in instructions that take an issue slot all the same. "
        "Fewer instructions help where slots are what is busiest.",
        action="Make branches uniform per warp: give the work to consecutive threads",
        advice="Give work to consecutive threads, so that whole warps skip the rest, let whole warps decide alike, and "
        "combine the values of a warp with shuffles instead of a step for ever fewer threads.",
        confidence="inferred",
        saving=case.saving({unit: part for unit in case.needs if unit not in _STAYS}).if_held(
            (1.0 - part) * issue, "the same time in which nothing is issued"
        ),
        evidence=(
            *(
                Evidence(lane.metric, lane.threads, "thread", threshold=None, meaning=f"{what} threads per instruction")
                for what, lane in (("predicated-on", _switched_on(case)), ("active", _active_lanes(case)))
                if lane is not None
            ),
            *case.metric(_UNIFORM, "uniform branches", "%"),
            *case.issue_evidence(None),
        ),
        location=case.place_of("smsp__branch_targets_threads_divergent"),
        settled=moves_bytes_well(case),
    )


def _multiplies_matrices(case: Case) -> bool:
    """Tell whether the tensor pipe is the busiest unit: the other instructions feed it, many of them by one thread."""
    others = (need for unit, need in case.needs.items() if unit not in ("tensor", SM, LAUNCH))
    return case.needs.get("tensor", 0.0) > max(others, default=0.0)


def is_issued_by_one_thread(case: Case) -> bool:
    """Tell whether matrix instructions ran that a single thread issues: few active threads are then no waste.

    Where the opcodes are not known, a busy tensor pipe of a GPU that has such instructions tells so.
    """
    opcodes = case.recorded.launch.metrics.instances(WARP_OPCODES)
    if opcodes:
        return any(count > 0 and opcode_of(str(name)).startswith(_BY_ONE_THREAD) for name, count in opcodes.items())
    has_them = any(key.instruction == "tcgen05" for key in case.recorded.hardware.arch.compute)
    return has_them and bool(case.pipe("tensor"))


def _as_it_should_be(verdict: RuleVerdict) -> RuleVerdict:
    """Return what is told of few active threads as a fact: one thread issues for all."""
    return replace(
        verdict,
        why="On this GPU one thread of a warp issues the matrix instructions, and often the copies that feed them. "
        "Few active threads are how such a kernel works, as long as the tensor pipe is busy.",
        settled=True,
    )


def _idle_lanes(case: Case) -> Iterator[RuleVerdict]:
    """Lanes that wait for another branch; else lanes that a predicate switches off."""
    by_one_thread = is_issued_by_one_thread(case)
    if not by_one_thread:
        yield from _of_issue_slots(case)
    if _active_lanes(case) is None:
        return
    yield from (_as_it_should_be(verdict) if by_one_thread else verdict for verdict in _divergence(case))
    if not by_one_thread:
        yield from _predicated(case)


RULES = (
    Rule(
        "branch-divergence",
        "Threads of a warp take different branches",
        about="defect",
        looks_at="Active threads per executed warp instruction, of those that a warp of the block has (32 where the "
        "block is whole warps; `block-size` covers the others); where branches leave enough of them, predicated-on "
        "threads. Fewer idle lanes count where no unit is as busy as the issue slots. It is reported as a fact "
        "(`info`) beside matrix instructions that one thread issues (tcgen05), and for predicates where DRAM or L2 is "
        "80 % busy, because they move the same bytes, or the tensor pipe is the busiest unit.",
        thresholds=(THREADS,),
        gain="min((1 − active ÷ threads of a warp) × working time, 1 − largest need that remains), the first with the "
        "same time per instruction, the second with the same bytes through L2 and DRAM. Issue slots, pipes and L1 "
        "then need that part of what they do; DRAM and L2 need what they did, because the same bytes move, and the "
        "tensor pipe, as matrix instructions take whole warps. With predicates the same of the threads that they "
        "leave on, but accesses stay as they are: L1 needs what it did, too. Where nothing is as busy as the issue "
        "slots, (1 − working threads ÷ threads of a warp) × issue slots used, with the same time in which nothing is "
        "issued.",
        silent="Three quarters of the threads or more are active and predicated on, on average, and another unit is "
        "busier than the issue slots or the rest costs less than 3 %; or it was not collected.",
        check=_idle_lanes,
        metrics=(LANES[0], _SWITCHED_ON, _UNIFORM),
        causes=(Cause("reduction-tree"),),
        place=TreePlace(("branch_resolving",), "issue"),
    ),
)
