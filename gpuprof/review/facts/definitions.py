"""Which instructions the values of a kernel follow from, by its reaching definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from gpuprof.review.code import KernelCode
from gpuprof.sass.dataflow.definition_graph import definition_graph
from gpuprof.sass.dataflow.reaching_definitions import RegisterPlace
from gpuprof.sass.flow.digraph import Digraph
from gpuprof.sass.flow.graph import ControlFlowGraph, flow_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, written

_MOST_PLACES = 250
"""Definitions that are followed for one question; kernels of compilers take some dozen, and no more than 117."""


class Definitions:
    """The instructions whose results each instruction of a kernel reads, worked out when they are asked for."""

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

    def operands(self, instruction: Instruction) -> tuple[RegisterPlace, ...]:
        """Return the definitions that an instruction reads by its operands, in their order."""
        return self._reaching.sources(RegisterPlace(*self._places[instruction.address], name=""))

    def inputs(self, instruction: Instruction) -> tuple[RegisterPlace, ...]:
        """Return the definitions that an instruction reads by its predicate and its operands."""
        block, at = self._places[instruction.address]
        guard = [self._reaching.read(block, at, name) for name in named(instruction.predicate or "")]
        return (*guard, *self.operands(instruction))

    def sources(self, instruction: Instruction) -> frozenset[int]:
        """Return the addresses of the instructions whose results an instruction reads, or leaves if it does not run.

        Of results of several paths, only those that a loop begins with are among them.
        """
        known = self._sources.get(instruction.address)
        if known is None:
            places = [*self.inputs(instruction), *self._left(instruction)]
            origins = self._followed(places, self._joins_of_loops, lambda _: False)
            known = self._sources[instruction.address] = frozenset(origin.address for origin in origins)
        return known

    def origins(
        self, instruction: Instruction, passes: Callable[[Instruction], bool] = lambda _: False
    ) -> Iterator[Instruction]:
        """Yield the instructions whose results one may read, on any path.

        What `passes` values on is followed to what it reads. An instruction can come more than once.
        """
        return self._followed(self.inputs(instruction), self._reaching.sources, passes)

    def _left(self, instruction: Instruction) -> Iterator[RegisterPlace]:
        """Yield the definitions of the results of an instruction that stay if its predicate is false."""
        block, at = self._places[instruction.address]
        for name in written(instruction) if instruction.predicate is not None else ():
            _, before, _ = self._reaching.sources(RegisterPlace(block, at, name, bare=False))
            yield before

    def _joins_of_loops(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        return self._reaching.sources(place) if place.block in self._loops else ()

    def _followed(
        self,
        places: Iterable[RegisterPlace],
        ways: Callable[[RegisterPlace], tuple[RegisterPlace, ...]],
        passes: Callable[[Instruction], bool],
    ) -> Iterator[Instruction]:
        waiting = list(places)
        seen = set(waiting)
        while waiting and len(seen) < _MOST_PLACES:
            place = waiting.pop()
            if place.at < 0:
                before = ways(place)
            elif not place.bare:
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
    """Return the definitions of a kernel; those of the last kernel are kept."""
    return Definitions(code)


def _with_lost_blocks(graph: ControlFlowGraph) -> ControlFlowGraph:
    """Let the first block lead to code that only jumps to unknown addresses reach, such as the cases of a switch."""
    reached = frozenset(graph.order)
    before = Digraph(graph.successors, range(len(graph.blocks))).predecessors
    lost = tuple(block for block in range(len(graph.blocks)) if block not in reached and not before[block])
    if not lost:
        return graph
    whole = ControlFlowGraph(graph.blocks)
    whole.successors = [[*graph.successors[0], *lost], *graph.successors[1:]]
    return whole
