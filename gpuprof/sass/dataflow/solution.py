"""What follows from the values of registers in one warp: addresses, predicates, running lanes, steps of loops."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from gpuprof.sass.dataflow.definition_graph import AskedRequest
from gpuprof.sass.dataflow.expressions import (
    LinearExpr,
    lane_mask,
    number_of,
    signed,
)
from gpuprof.sass.dataflow.reaching_definitions import RegisterPlace
from gpuprof.sass.dataflow.solver import Solver


class LoopMoves(NamedTuple):
    """The number that a register has whenever a loop is entered, and by how much each iteration moves it.

    None if that is not a number.
    """

    entry: int | None
    step: int | None


class Solution(Solver):
    """The values of one kernel in one warp, and what follows from them."""

    @property
    def reads_block_index(self) -> bool:
        """Return whether a value follows from blockIdx."""
        return any(name.startswith("SR_CTAID") for name in self.symbols.of)

    def of_every_path(self) -> Solution:
        """Return the solution in which lanes may take each branch: this one if they do."""
        if self._every_path or not self.settled or self._closed <= self._edges.keys():
            return self
        return Solution(self.definitions, self.warp, self.constants, every_path=True)

    def address(self, asked: AskedRequest) -> LinearExpr | None:
        """Return the lower word of the address of a request."""
        operand = asked.request.operand
        return self.reader(asked.block, asked.at, [operand]).address(operand)

    def running(self, block: int, at: int) -> int:
        """Return the lanes that may run an instruction."""
        active = self.active.get(block, 0)
        predicate = self.graph.blocks[block][at].predicate
        if predicate is None:
            return active
        mask = lane_mask(self.reader(block, at, [predicate]).flag_view(predicate[1:]))
        return active if mask is None else active & mask

    def moves(self, place: RegisterPlace) -> LoopMoves:
        """Return how a loop moves a register that joins in its header."""
        begin, body = self.held(place), self.graph.loops[place.block]
        entries, steps = set(), set()
        for source, way in zip(self._before[place.block], self.definitions.reaching.sources(place), strict=True):
            if source in body:
                steps.add(self.held(way).plus(begin, -1))
            else:
                entries.add(self.held(way))
        step = _only_number(steps)
        return LoopMoves(_only_number(entries), None if step is None else signed(step))


def _only_number(values: Set[LinearExpr]) -> int | None:
    return number_of(next(iter(values))) if len(values) == 1 else None
