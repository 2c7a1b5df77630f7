"""Queries on the solved values of one warp: addresses, active lanes, induction variables."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from gpuprof.sass.dataflow.definition_graph import PlacedRequest
from gpuprof.sass.dataflow.expressions import (
    LinearExpr,
    lane_mask,
    number_of,
    signed,
)
from gpuprof.sass.dataflow.reaching_definitions import Definition
from gpuprof.sass.dataflow.solver import Solver


class Induction(NamedTuple):
    """An induction variable: its value when the loop is entered, and its step per iteration; None if unknown."""

    entry: int | None
    step: int | None


class Solution(Solver):
    """The values of one kernel in one warp, with queries on them."""

    @property
    def reads_block_index(self) -> bool:
        """Return whether a value depends on blockIdx."""
        return any(name.startswith("SR_CTAID") for name in self.symbols.by_name)

    def of_every_path(self) -> Solution:
        """Return the solution in which lanes may take both sides of each branch; this one if they already do."""
        if self._every_path or not self.settled or self._not_taken <= self._edges.keys():
            return self
        return Solution(self.definitions, self.warp, self.constants, every_path=True)

    def address(self, placed: PlacedRequest) -> LinearExpr | None:
        """Return the lower word of the address of a request."""
        operand = placed.request.operand
        return self.reader(placed.block, placed.at, [operand]).address(operand)

    def running(self, block: int, at: int) -> int:
        """Return the lanes that may run an instruction."""
        active = self.active.get(block, 0)
        predicate = self.graph.blocks[block][at].predicate
        if predicate is None:
            return active
        mask = lane_mask(self.reader(block, at, [predicate]).flag_view(predicate[1:]))
        return active if mask is None else active & mask

    def induction(self, place: Definition) -> Induction:
        """Return the induction of a register that has a join in a loop header."""
        begin, body = self.value_of(place), self.graph.loops[place.block]
        entries, steps = set(), set()
        for source, way in zip(self._before[place.block], self.definitions.reaching.sources(place), strict=True):
            if source in body:
                steps.add(self.value_of(way).plus(begin, -1))
            else:
                entries.add(self.value_of(way))
        step = _only_number(steps)
        return Induction(_only_number(entries), None if step is None else signed(step))


def _only_number(values: Set[LinearExpr]) -> int | None:
    return number_of(next(iter(values))) if len(values) == 1 else None
