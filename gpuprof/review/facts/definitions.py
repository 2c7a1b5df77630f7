"""The instructions that the operands of an instruction come from, by reaching definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from gpuprof.review.code import KernelCode
from gpuprof.sass.dataflow.definition_graph import definition_graph
from gpuprof.sass.dataflow.reaching_definitions import Definition
from gpuprof.sass.flow.digraph import Digraph
from gpuprof.sass.flow.graph import ControlFlowGraph, flow_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, written

_MOST_PLACES = 250
"""Limit on the definitions that one query follows; compiled kernels take some dozen, at most 117."""


class Definitions:
    """The def-use relations between the instructions of a kernel, computed on demand."""

    def __init__(self, code: KernelCode) -> None:
        graph = _with_lost_blocks(flow_of(code.code))
        self._blocks = graph.blocks
        self._loops = graph.loops
        self._reaching = definition_graph(graph).reaching
        self._places = {
            instruction.address: (number, at)
            for number, block in enumerate(graph.blocks)
            for at, instruction in enumerate(block)
        }
        self._sources: dict[int, frozenset[int]] = {}

    def operands(self, instruction: Instruction) -> tuple[Definition, ...]:
        """Return the definitions that the operands of an instruction read, in their order."""
        return self._reaching.sources(Definition(*self._places[instruction.address], name=""))

    def inputs(self, instruction: Instruction) -> tuple[Definition, ...]:
        """Return the definitions that the predicate and the operands of an instruction read."""
        block, at = self._places[instruction.address]
        guard = [self._reaching.read(block, at, name) for name in named(instruction.predicate or "")]
        return (*guard, *self.operands(instruction))

    def sources(self, instruction: Instruction) -> frozenset[int]:
        """Return the addresses of the instructions whose results an instruction reads, or keeps if its guard is false.

        Joins are followed at loop headers only, not where other paths meet.
        """
        known = self._sources.get(instruction.address)
        if known is None:
            places = [*self.inputs(instruction), *self._kept(instruction)]
            origins = self._followed(places, self._joins_of_loops, lambda _: False)
            known = self._sources[instruction.address] = frozenset(origin.address for origin in origins)
        return known

    def origins(
        self, instruction: Instruction, passes: Callable[[Instruction], bool] = lambda _: False
    ) -> Iterator[Instruction]:
        """Yield the instructions whose results this one may read, on any path.

        If `passes` is true for such an instruction, its own inputs are followed, too. An instruction may be yielded
        more than once.
        """
        return self._followed(self.inputs(instruction), self._reaching.sources, passes)

    def _kept(self, instruction: Instruction) -> Iterator[Definition]:
        """Yield the definitions that a guarded instruction keeps if its predicate is false."""
        block, at = self._places[instruction.address]
        for name in written(instruction) if instruction.predicate is not None else ():
            _, before, _ = self._reaching.sources(Definition(block, at, name, unguarded=False))
            yield before

    def _joins_of_loops(self, place: Definition) -> tuple[Definition, ...]:
        return self._reaching.sources(place) if place.block in self._loops else ()

    def _followed(
        self,
        places: Iterable[Definition],
        ways: Callable[[Definition], tuple[Definition, ...]],
        passes: Callable[[Instruction], bool],
    ) -> Iterator[Instruction]:
        waiting = list(places)
        seen = set(waiting)
        while waiting and len(seen) < _MOST_PLACES:
            place = waiting.pop()
            if place.at < 0:
                before = ways(place)
            elif not place.unguarded:
                before = self._reaching.sources(place)
            else:
                origin = self._blocks[place.block][place.at]
                yield origin
                before = self._reaching.sources(place) if passes(origin) else ()
            new = [each for each in before if each not in seen]
            seen.update(new)
            waiting += new


@lru_cache(maxsize=1)
def definitions_of(code: KernelCode) -> Definitions:
    """Return the definitions of a kernel; those of the last kernel are cached."""
    return Definitions(code)


def _with_lost_blocks(graph: ControlFlowGraph) -> ControlFlowGraph:
    """Add edges from the first block to code that only jumps with unknown targets reach, such as cases of a switch."""
    reached = frozenset(graph.order)
    before = Digraph(graph.successors, range(len(graph.blocks))).predecessors
    lost = tuple(block for block in range(len(graph.blocks)) if block not in reached and not before[block])
    if not lost:
        return graph
    whole = ControlFlowGraph(graph.blocks)
    whole.successors = [[*graph.successors[0], *lost], *graph.successors[1:]]
    return whole
