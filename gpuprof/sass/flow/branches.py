"""Immediate dominators of blocks, and the branches between a block and its dominator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from gpuprof.sass.flow.dominators import immediate_dominators
from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import JUMPS
from gpuprof.sass.operands import named

_MOST_BLOCKS = 64


class Guard(NamedTuple):
    """A predicate that a branch reads: its block, the branch's number in it, and the name."""

    block: int
    at: int
    name: str


class Branches:
    """The branches of one kernel."""

    def __init__(self, graph: ControlFlowGraph) -> None:
        self.graph = graph
        self.predecessors = graph.predecessors()
        self.reached = frozenset(graph.order())

    def before(self, block: int) -> tuple[Guard, ...] | None:
        """Return the predicates of the branches between a block and its dominator; None if they are too many.

        An EXIT takes lanes away for good, so that those that are left take one way.
        """
        top = self.dominators.get(block)
        waiting = [source for source in self.predecessors[block] if source in self.reached]
        seen: set[int] = set()
        places: list[Guard] = []
        while waiting and len(seen) < _MOST_BLOCKS:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            last = self.graph.blocks[number][-1]
            if len(self.graph.successors[number]) > 1 and last.name in JUMPS:
                index = len(self.graph.blocks[number]) - 1
                guards = (last.predicate or "", *last.operands[:-1])
                places += [Guard(number, index, name) for guard in guards for name in named(guard)]
            if number != top:
                waiting += [source for source in self.predecessors[number] if source in self.reached]
        return tuple(dict.fromkeys(places)) if not waiting else None

    @cached_property
    def dominators(self) -> Mapping[int, int]:
        """Map each reachable block to its immediate dominator, or to itself if it has none."""
        root = len(self.graph.blocks)
        known = immediate_dominators([*self.graph.successors, self.graph.entries], root)
        return {block: block if dominator == root else dominator for block, dominator in known.items()}
