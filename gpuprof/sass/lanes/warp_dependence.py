"""Tells whether more could be known of a kernel's accesses by looking at its warps one by one.

It could where what is not known follows from threadIdx. What is loaded from addresses whose lanes lie known distances
apart is as unknown in each warp as in all.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.lanes.access import Access
from gpuprof.sass.lanes.possible import PossibleStep, possible_steps
from gpuprof.sass.requests import Space


def follows_from_warp(graph: ControlFlowGraph, known: Mapping[tuple[int, Space], Access]) -> bool:
    """Tell whether branches, predicates of accesses, or addresses that are not known follow from threadIdx.

    `known`: what memory instructions do in all warps.
    """
    unknown = frozenset(offset for (offset, _), access in known.items() if access.offsets is None)
    scattered = (offset for (offset, _), access in known.items() if access.offsets and any(access.offsets))
    steps = possible_steps(graph, frozenset(scattered))
    begins: dict[int, int] = dict.fromkeys(graph.entries, 0)
    waiting = dict.fromkeys(graph.entries)
    while waiting:
        number, _ = waiting.popitem()
        held = begins[number]
        for step in steps[number]:
            if step.effect.asks and held & _asked(step, unknown):
                return True
            held = _passed_on(step, held, unknown)
        for target in graph.successors[number]:
            before = begins.get(target)
            if before is None or held & ~before:
                begins[target] = held | (before or 0)
                waiting[target] = None
    return False


def _asked(step: PossibleStep, unknown: frozenset[int]) -> int:
    """Return what decides what an instruction does, as far as that is not known."""
    if not step.effect.touches or (step.may_be_known and step.instruction.address in unknown):
        return step.effect.needs
    return step.effect.guard


def _passed_on(step: PossibleStep, held: int, unknown: frozenset[int]) -> int:
    """Return what follows from threadIdx after an instruction."""
    effect = step.effect
    if not step.runs:
        return held & ~step.forgets
    reads = effect.reads
    if effect.touches and step.instruction.address not in unknown:
        reads = effect.guard | (effect.gone if effect.guard else 0)
    if effect.of_thread or held & reads:
        return held | effect.gone
    return held if effect.guard else held & ~effect.gone
