"""Lanes of a warp that do nothing without a branch: switched off by a predicate, or beside one thread that issues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from gpuprof.diagnose import nvidia_messages
from gpuprof.diagnose.blocks import LANES, lanes_of_block, moves_bytes_well
from gpuprof.diagnose.case import Case, opcode_of
from gpuprof.diagnose.needs import LAUNCH, SM
from gpuprof.diagnose.rule import RuleVerdict, Threshold
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.session import Evidence
from gpuprof.units import WARP_THREADS

SWITCHED_ON = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
_TOLD = "rule ThreadDivergence"
_STAYS = ("dram", "l2", "l1", "lsu", "tex", "tensor", "launch")
"""What predicates do not touch: accesses are those of lanes that are on, and matrix instructions take whole warps."""
_BY_ONE_THREAD = "UTC"
"""How matrix instructions of tcgen05 begin: one thread issues them for the SM (NVIDIA's Compute Triage Guide)."""


class LaneCount(NamedTuple):
    """Threads of an average instruction, and the metric or the rule of NVIDIA's that tells them."""

    threads: float
    metric: str


def active_lanes(case: Case) -> LaneCount | None:
    """Return the threads that no branch left behind; None where they were not counted."""
    for name in LANES:
        if (threads := case.number(name)) is not None:
            return LaneCount(threads, name)
    told = nvidia_messages.active_lanes(case.messages)
    return LaneCount(told.active, _TOLD) if told is not None else None


def _switched_on(case: Case) -> LaneCount | None:
    on = case.number(SWITCHED_ON)
    if on is not None:
        return LaneCount(on, SWITCHED_ON)
    told = nvidia_messages.active_lanes(case.messages)
    return LaneCount(told.on, _TOLD) if told is not None else None


def predicated(case: Case, least: Threshold) -> Iterator[RuleVerdict]:
    """Say that predicates switch lanes off, where branches alone do not leave fewer than `least` of 32 active."""
    switched, alive, lanes = _switched_on(case), active_lanes(case), lanes_of_block(case) or float(WARP_THREADS)
    if switched is None or alive is None:
        return
    on, active = switched.threads, alive.threads
    if not on or active / lanes * WARP_THREADS < least.value or on / lanes * WARP_THREADS >= least.value:
        return
    part = on / lanes
    of = "32" if lanes == WARP_THREADS else f"the {lanes:.3g}"
    yield RuleVerdict(
        headline=f"Predicated lanes: {on:.3g} of {of} threads are switched on in an average instruction",
        why="The compiler runs short branches without a jump: the whole warp issues their instructions, and a "
        "predicate switches the other threads off. Instructions that no thread of a warp needs count, too.",
        action="Let whole warps take a condition, so that none of its instructions is issued for a few threads",
        advice="Give the threads that have work to do consecutive numbers, so that whole warps skip the rest, move "
        "bounds checks out of the loop, and combine values of a warp with shuffles instead of a step for ever fewer "
        "threads.",
        confidence="inferred",
        saving=case.saving({unit: part for unit in case.needs if unit not in _STAYS})
        .if_held(1.0 - part, "each instruction as fast as now")
        .only_if("the same accesses"),
        evidence=(
            Evidence(
                switched.metric,
                on,
                "thread",
                threshold=least.value * lanes / WARP_THREADS,
                meaning="threads switched on an instruction",
            ),
            Evidence(alive.metric, active, "thread", threshold=None, meaning="active threads an instruction"),
        ),
        settled=moves_bytes_well(case) or _multiplies_matrices(case),
    )


def _multiplies_matrices(case: Case) -> bool:
    """Tell whether the tensor pipe is the busiest unit: the other instructions feed it, many of them by one thread."""
    others = (need for unit, need in case.needs.items() if unit not in ("tensor", SM, LAUNCH))
    return case.needs.get("tensor", 0.0) > max(others, default=0.0)


def issued_by_one_thread(case: Case) -> bool:
    """Tell whether matrix instructions ran that a single thread issues: few active threads are then no waste.

    Where the opcodes are not known, a busy tensor pipe of a GPU that has such instructions tells so.
    """
    opcodes = case.recorded.launch.metrics.instances(WARP_OPCODES)
    if opcodes:
        return any(count > 0 and opcode_of(str(name)).startswith(_BY_ONE_THREAD) for name, count in opcodes.items())
    has_them = any(key.instruction == "tcgen05" for key in case.recorded.hardware.arch.compute)
    return has_them and bool(case.pipe("tensor"))


def as_it_should_be(verdict: RuleVerdict) -> RuleVerdict:
    """Return what is told of few active threads as a fact: one thread issues for all."""
    return replace(
        verdict,
        why="One thread of a warp issues the matrix instructions of this GPU, and often the copies that feed them. Few "
        "active threads are how such a kernel works, as long as the tensor pipe is busy.",
        settled=True,
    )
