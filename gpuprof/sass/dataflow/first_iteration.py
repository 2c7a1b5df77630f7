"""The values of a kernel in the first iteration of its loops."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.sass.dataflow.reaching_definitions import RegisterPlace
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.dataflow.solver import Solver


class FirstIteration(Solution):
    """The values of a kernel in the first iteration of all loops around a block."""

    def __init__(self, every: Solution) -> None:
        self._every = every
        super().__init__(every.definitions, every.warp, every.constants)

    def _solve(self) -> bool:
        every, around = self._every, self.graph.loops_around
        self.symbols, self._mixed = every.symbols, dict(every._mixed)
        self._held = {place: value for place, value in every._held.items() if place.block not in around}
        self.active = {block: lanes for block, lanes in every.active.items() if block not in around}
        self._edges = {edge: lanes for edge, lanes in every._edges.items() if edge[0] not in around}
        self._place = {block: place for place, block in enumerate(self.definitions.order)}
        for block in self.definitions.order:
            if block not in around or not self._arriving(block):
                continue
            self.active[block] = self._arriving(block)
            for number in self.definitions.of_block[block]:
                node = self.definitions.nodes[number]
                value = self._evaluate(node) if isinstance(node, RegisterPlace) else None
                if isinstance(node, RegisterPlace) and value is not None:
                    self._held[node] = value
            self._end(block)
        return every.settled

    def _incoming(self, block: int) -> Iterator[tuple[int, Solver, int]]:
        around, loops = self.graph.loops_around, self.graph.loops
        for number, source in enumerate(self.definitions.reaching.before[block]):
            if source in loops.get(block, ()):
                continue
            leaves = any(header not in around.get(block, ()) for header in around.get(source, ()))
            is_later = self._place[source] >= self._place[block]
            known: Solver = self._every if leaves or is_later else self
            lanes = known._edges.get((source, block), 0)
            if lanes:
                yield number, known, lanes
