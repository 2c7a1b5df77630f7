"""Which instructions may matter for the addresses that a kernel touches, and for the ways that its lanes take.

A walk executes only those: what a register holds is of no interest where nothing that follows reads it on the way to
an address, a branch or a predicate of either, nor where nothing can be known of it. Rather too many than too few are
taken to matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.effects import Effect, names_of
from gpuprof.sass.lanes.possible import PossibleStep, possible_steps


class WalkStep(NamedTuple):
    """An instruction of a walk: it may ask, then it `runs`, or nothing is known any longer of what it `forgets`."""

    instruction: Instruction
    effect: Effect
    runs: bool
    forgets: tuple[str, ...]


class Relevance(Struct, frozen=True, kw_only=True):
    """The steps of each block, and what matters of what registers hold at its beginning."""

    steps: tuple[tuple[WalkStep, ...], ...]
    live: tuple[frozenset[str], ...]


class _Moment(NamedTuple):
    """A step in terms of what matters: all of `makes` is what it may change, of which `kills` holds nothing old."""

    makes: int
    kills: int
    reads: int
    needs: int


@lru_cache(maxsize=4)
def relevance_of(graph: ControlFlowGraph, addresses: frozenset[int] | None = None) -> Relevance:
    """Return the steps of each block of a kernel; those of the last kernels are kept.

    Only the addresses of these memory instructions matter, by their offsets; None: of all.
    """
    possible = possible_steps(graph)
    moments = [[_moment(step, addresses) for step in block] for block in possible]
    live = _live(moments, graph)
    steps = []
    for number, block in enumerate(possible):
        after = _union(live, graph.successors[number])
        kept = []
        for step, moment in zip(reversed(block), reversed(moments[number]), strict=True):
            makes = moment.makes & after
            if makes:
                after = after & ~moment.kills | moment.reads
            after |= moment.needs
            if makes or step.effect.asks:
                runs = makes != 0 and step.runs
                forgets = () if step.runs else tuple(names_of(makes))
                kept.append(WalkStep(step.instruction, step.effect, runs=runs, forgets=forgets))
        steps.append(tuple(reversed(kept)))
    return Relevance(steps=tuple(steps), live=tuple(map(names_of, live)))


def _moment(step: PossibleStep, addresses: frozenset[int] | None) -> _Moment:
    effect = step.effect
    whole = addresses is None or not effect.touches or step.instruction.address in addresses
    needs = effect.needs if whole else effect.guard
    if step.runs:
        return _Moment(makes=effect.gone, kills=effect.kills, reads=effect.reads, needs=needs)
    return _Moment(makes=step.forgets, kills=effect.gone, reads=0, needs=needs)


def _live(moments: Sequence[Sequence[_Moment]], graph: ControlFlowGraph) -> list[int]:
    """Return what matters at the beginning of each block: what a block needs grows until nothing new is found."""
    before = graph.predecessors()
    live = [0] * len(moments)
    waiting = dict.fromkeys(range(len(moments)))
    while waiting:
        number, _ = waiting.popitem()
        now = _union(live, graph.successors[number])
        for makes, kills, reads, needs in reversed(moments[number]):
            if makes & now:
                now = now & ~kills | reads
            now |= needs
        if now != live[number]:
            live[number] = now
            waiting.update(dict.fromkeys(before[number]))
    return live


def _union(masks: Sequence[int], numbers: Sequence[int]) -> int:
    union = 0
    for number in numbers:
        union |= masks[number]
    return union
