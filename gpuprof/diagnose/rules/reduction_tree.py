"""The rule on reductions in shared memory with a barrier per step, instead of shuffles.

A step of such a tree loads two values from shared memory, combines them and stores the result, and
all threads wait at a barrier before the next step. The first of n steps uses half of the threads,
and each later one half of those of the step before: on average 1 thread in n adds at a step. Scans,
transforms and stencils load, combine and store, too, but with all threads, or they move values
unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuprof.annotated.counts import EXECUTED
from gpuprof.diagnose.bounds import bound_of_wait
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, finding
from gpuprof.diagnose.thresholds import BARRIERS, NOTABLE, Threshold, percent
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES
from gpuprof.sass.patterns.reduction_steps import BETWEEN_LANES, steps_of

ADDING = percent("adding", 33.0)

STEPS = Threshold("steps", 3.0, "barrier")

_THREADS = "thread_inst_executed_true"
"""Threads that executed an instruction and were not predicated off, by its address."""

_OTHER_WAYS = ("LDGSTS", "ATOMS", "UBLKCP", "UTMALDG", "LDSM")
"""Opcodes that fill, update or read shared memory in another way: few stores then show nothing."""


class _Tree(NamedTuple):
    """A reduction in shared memory.

    `adding` is the fraction of the threads at its barriers that add. `executed` is how often warps
    arrive at these, 0 if unknown, and `barriers` is their part of all executed barriers.
    """

    adding: float
    executed: float
    barriers: float = 1.0


def _reduction(facts: KernelFacts) -> Findings:
    """Report a tree if its barriers, and the accesses of shared memory between them, take much of the time."""
    is_by_code = facts.code.has_sass and facts.metrics.instances(_THREADS) is not None
    tree = _tree_in_code(facts) if is_by_code else _tree_in_opcodes(facts)
    if tree is None or 100 * tree.adding > ADDING.value:
        return
    steps = tree.executed / facts.warps if facts.warps else 0.0
    if 0.0 < steps < STEPS.value:
        return
    felt = ("barrier", *SHARED_STALLS) if tree.barriers == 1.0 else ("barrier",)
    share = tree.barriers * facts.stall(*felt)
    if not NOTABLE.is_reached(share):
        return
    evidence = [ADDING.evidence(100 * tree.adding, metric=_THREADS if is_by_code else THREAD_OPCODES)]
    if steps:
        evidence.append(STEPS.evidence(steps))
    yield finding(
        facts,
        amounts=amounts_of(adding=tree.adding),
        confidence="inferred" if is_by_code else "guess",
        saving=bound_of_wait(facts, share),
        evidence=(*evidence, *facts.stall_evidence(*felt)),
        place=facts.code.place_of_opcode("BAR"),
    )


def _tree_in_code(facts: KernelFacts) -> _Tree | None:
    """Return the tree in the code; None if there is none.

    A thread that loads two values takes part even if, by chance, it does not store the result.
    """
    threads = facts.metrics.instances(_THREADS) or {}
    count = [threads.get(instruction.pc, 0.0) for instruction in facts.code.instructions]
    barriers = {
        place: facts.code.instructions[place].counts.get(EXECUTED, 0.0)
        for place, opcode in enumerate(facts.code.opcode_names)
        if opcode.startswith("BAR")
    }
    own = {}
    arrived = took_part = 0.0
    for step in steps_of(facts.code.sass):
        loading = min((count[at] for at in step.loads), default=0.0)
        took_part += max(count[step.store], loading)
        arrived += count[step.barrier]
        own[step.barrier] = barriers[step.barrier]
    if not arrived:
        return None
    executed, total = sum(own.values()), sum(barriers.values())
    return _Tree(took_part / arrived, executed, executed / total if total else len(own) / len(barriers))


def _tree_in_opcodes(facts: KernelFacts) -> _Tree | None:
    """Return a guess of a tree by opcodes: many barriers, few stores, 0.5 to 3 loads for each."""
    threads = facts.opcode_counts(THREAD_OPCODES)
    loads, stores, arrived = (threads.get(name, 0.0) for name in ("LDS", "STS", "BAR"))
    if not arrived or not 0.0 < stores / 2 <= loads <= 3 * stores:
        return None
    if not BARRIERS.is_reached(facts.share_of_opcodes("BAR")) or any(map(threads.get, BETWEEN_LANES + _OTHER_WAYS)):
        return None
    return _Tree(stores / arrived, facts.executed("BAR"))


RULE = Rule(
    "reduction-tree",
    thresholds=(ADDING, STEPS, BARRIERS, NOTABLE),
    check=_reduction,
    metrics=(WARP_OPCODES, THREAD_OPCODES),
    place=TreePlace(("barrier", *SHARED_STALLS), "unit"),
)
