"""The rule on reductions in shared memory with a barrier per step, instead of shuffles.

A step of such a tree loads two values from shared memory, combines them and stores the result, and
all threads wait at a barrier before the next step. The first of n steps uses half of the threads,
and each later one half of those of the step before: on average 1 thread in n adds at a step. Scans,
transforms and stencils load, combine and store, too, but with all threads, or they move values
unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuprof.annotated.counts import EXECUTED, opcode_of
from gpuprof.code.patterns.reduction_steps import BETWEEN_LANES, TreeStep, steps_of
from gpuprof.diagnose.bounds import bound_of_wait
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.rule import Rule, TreePlace, amounts_of, finding
from gpuprof.diagnose.thresholds import BARRIERS, NOTABLE, Threshold, context, percent
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding

ADDING = percent("adding", 33.0)

STEPS = Threshold("steps", 3.0, "barrier")


_THREADS = "thread_inst_executed_true"
"""Threads that executed an instruction and were not predicated off, by its address."""

_OTHER_WAYS = ("LDGSTS", "ATOMS", "UBLKCP", "UTMALDG", "LDSM")
"""Opcodes that fill, update or read shared memory in another way: few stores then show nothing."""


_ACCESSES = (
    "smsp__sass_inst_executed_op_shared_{}.sum",
    "sm__sass_inst_executed_op_shared_{}.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum",
)
"""Accesses of shared memory by warps, and their passes, which are as many if none conflict."""

_LEAST_WARPS = 8
"""In smaller blocks a tree has as many stores as kernels whose warps all store 3, 4 or 6 times."""


def _reduction(facts: KernelFacts) -> Iterator[Finding]:
    if not facts.stalls:
        yield from _tree_without_waits(facts)
        return
    tree = _tree_in_code(facts) if facts.has_sass else _tree_in_opcodes(facts)
    if tree is None:
        return
    share = tree.barriers * facts.stall("barrier") + tree.accesses * facts.stall(*SHARED_STALLS)
    if not NOTABLE.is_reached(share):
        return
    evidence = [ADDING.evidence(100 * tree.adding, metric=tree.metric)]
    if tree.steps is not None:
        evidence.append(STEPS.evidence(tree.steps))
    felt = [reason for reason in ("barrier", *SHARED_STALLS) if facts.stall(reason) > 0]
    yield finding(
        facts,
        amounts=amounts_of(adding=tree.adding),
        confidence=tree.confidence,
        saving=bound_of_wait(facts, share),
        evidence=(*evidence, *facts.stall_evidence(*felt)),
        place=facts.place(lambda instruction: tree.samples.get(instruction.pc, 0.0)),
    )


def _tree_without_waits(facts: KernelFacts) -> Iterator[Finding]:
    """Yield a finding if shared memory is accessed as often as by a tree and there are no times."""
    warps, blocks = facts.warps_per_block, facts.blocks
    if facts.busiest_need is not None or not warps or not blocks:
        return
    for name in _ACCESSES:
        loads, stores = ((facts.number(name.format(kind)) or 0.0) / blocks for kind in ("ld", "st"))
        if not _accesses_as_a_tree(loads, stores, warps):
            continue
        steps = round(math.log2(facts.threads_per_block or 1))
        yield finding(
            facts,
            Cases(headline=("by-accesses",), why=("main", "no-waits")),
            amounts=(amounts_of("warp", warps=warps) + amounts_of("", stores=stores) + amounts_of("step", steps=steps)),
            confidence="inferred",
            evidence=context("stores-per-block", stores, "inst") + context("loads-per-block", loads, "inst"),
        )
        return


def _accesses_as_a_tree(loads: float, stores: float, warps: int) -> bool:
    """Return whether a block accesses shared memory as often as a tree over all of its threads.

    First all warps store once. At each step half of the threads of the step before store, down to
    one thread. Consecutive threads are in half as many warps at each step, down to one warp, which
    takes five more steps. Every second, fourth and so on thread are in all warps for the first five
    steps. A step loads one or two values before it stores. At the end no warp, one or all load the
    result.
    """
    if warps < _LEAST_WARPS or warps & (warps - 1):
        return False
    for steps in (warps - 1 + 5, 5 * warps + warps - 1):
        last = (0, 1, warps)
        if stores == warps + steps and (loads - steps in last or loads - 2 * steps in last):
            return True
    return False


class _Tree(NamedTuple):
    """A reduction in shared memory: the fraction of threads that add, and its part of waits.

    `barriers` and `accesses` are its part of all executed barriers and of all executed loads from
    shared memory.
    """

    metric: str
    adding: float
    steps: float | None
    barriers: float
    accesses: float
    confidence: Confidence
    samples: Mapping[int, float]


def _tree_in_code(facts: KernelFacts) -> _Tree | None:
    """Return the tree in the code, if few of the threads at its barriers have anything to add."""
    steps = steps_of(facts.sass)
    metric, adding = _THREADS, _adding(facts, steps)
    if steps and adding is None:
        metric = THREAD_OPCODES
        adding = _adding_by_opcodes(facts)
    if adding is None or 100 * adding > ADDING.value:
        return None
    barriers = {
        instruction.pc: instruction.counts.get(EXECUTED, 0.0)
        for instruction in facts.code
        if opcode_of(instruction.sass).startswith("BAR")
    }
    places = {facts.code[step.barrier].pc for step in steps}
    own = {pc: barriers[pc] for pc in places}
    executed, total = sum(own.values()), sum(barriers.values())
    passed = None
    if executed and facts.warps:
        passed = executed / facts.warps
        if passed < STEPS.value:
            return None
    return _Tree(
        metric=metric,
        adding=adding,
        steps=passed,
        barriers=executed / total if total else len(own) / len(barriers),
        accesses=float(len(own) == len(barriers)),
        confidence="inferred",
        samples={pc: count or 1.0 for pc, count in own.items()},
    )


def _adding(facts: KernelFacts, steps: Sequence[TreeStep]) -> float | None:
    """Return the fraction of threads at the barriers that took part in the steps, if counted.

    A thread that loads two values takes part even if, by chance, it does not store the result.
    """
    threads = facts.metrics.instances(_THREADS) or {}
    count = [threads.get(instruction.pc, 0.0) for instruction in facts.code]
    arrived = took_part = 0.0
    for step in steps:
        loading = min((count[at] for at in step.loads), default=0.0)
        arrived += count[step.barrier]
        took_part += max(count[step.store], loading)
    return took_part / arrived if arrived else None


def _adding_by_opcodes(facts: KernelFacts) -> float | None:
    """Return stores to shared memory ÷ barrier passes, in threads; None without 0.5 to 3 loads.

    A step of a tree has about two.
    """
    threads = facts.opcode_counts(THREAD_OPCODES)
    loads, stores, arrived = (threads.get(name, 0.0) for name in ("LDS", "STS", "BAR"))
    if arrived <= 0 or stores <= 0 or not stores / 2 <= loads <= 3 * stores:
        return None
    return stores / arrived


def _tree_in_opcodes(facts: KernelFacts) -> _Tree | None:
    """Return a guess of a tree by opcodes: many barriers, few stores, about as many loads."""
    executed = facts.opcode_counts()
    adding = _adding_by_opcodes(facts)
    barriers = executed.get("BAR", 0.0)
    if adding is None or not barriers or 100 * barriers < BARRIERS.value * sum(executed.values()):
        return None
    threads = facts.opcode_counts(THREAD_OPCODES)
    if 100 * adding > ADDING.value or any(map(threads.get, BETWEEN_LANES + _OTHER_WAYS)):
        return None
    steps = None
    if facts.warps:
        steps = barriers / facts.warps
        if steps < STEPS.value:
            return None
    return _Tree(THREAD_OPCODES, adding, steps, barriers=1.0, accesses=1.0, confidence="guess", samples={})


RULE = Rule(
    "reduction-tree",
    kind="defect",
    thresholds=(ADDING, STEPS, BARRIERS, NOTABLE),
    check=_reduction,
    metrics=(WARP_OPCODES, THREAD_OPCODES),
    place=TreePlace(("barrier", *SHARED_STALLS), "unit"),
)
