"""The definitions of registers that addresses and branch conditions depend on, and their def-use edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from gpuprof.sass.dataflow.evaluation import Evaluation
from gpuprof.sass.dataflow.reaching_definitions import Definition, ReachingDefinitions
from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import ENDS, JUMPS, Instruction
from gpuprof.sass.operands import named
from gpuprof.sass.requests import LaneRequest, requests

_JUMPS_OR_ENDS = JUMPS | ENDS


class PlacedRequest(NamedTuple):
    """A memory request, with the block and the index of its instruction."""

    block: int
    at: int
    instruction: Instruction
    request: LaneRequest


class Node(NamedTuple):
    """A definition, or the beginning or end of a block (without a place)."""

    block: int
    place: Definition | None


class DefinitionGraph:
    """The definitions that addresses, branches and their predicates depend on, in the order of the code."""

    def __init__(self, graph: ControlFlowGraph) -> None:
        self.graph = graph
        self.reaching = ReachingDefinitions(graph)
        self.order = graph.order
        self.requests = [
            PlacedRequest(number, at, instruction, request)
            for number in self.order
            for at, instruction in enumerate(graph.blocks[number])
            for request in requests(instruction)
        ]
        self._number_nodes(self._relevant())
        self._evaluation: Evaluation | None = None

    def evaluation(self, constants: Mapping[int, int]) -> Evaluation:
        """Return the evaluation of instructions with known bytes of constant bank 0; the last one is cached."""
        if self._evaluation is None or self._evaluation.constants != constants:
            self._evaluation = Evaluation(self.reaching, constants)
        return self._evaluation

    def read_by(self, block: int, at: int, name: str) -> Definition:
        """Return the definition of a register that an instruction reads."""
        return self.reaching.read(block, at, name, self.graph.blocks[block][at].predicate)

    def read_in(self, block: int, at: int, operands: Iterable[str]) -> Iterator[Definition]:
        """Yield the definitions of the registers in operands of an instruction."""
        for operand in operands:
            for name in named(operand):
                yield self.read_by(block, at, name)

    def deciding(self, block: int) -> tuple[Definition, ...]:
        """Return the predicates of the branches between a block and its dominator; none if there are too many."""
        places: dict[Definition, None] = {}
        for number in self.graph.branches_above(block):
            last = len(self.graph.blocks[number]) - 1
            places.update(dict.fromkeys(self.read_in(number, last, self.conditions(number))))
        return tuple(places)

    def jumps_or_ends(self, block: int) -> bool:
        """Return whether a block ends with a jump, or with an instruction that ends threads."""
        last = self.graph.blocks[block][-1]
        return last.name in _JUMPS_OR_ENDS or last.address in self.graph.jumps

    def conditions(self, block: int) -> list[str]:
        """Return the predicates of a last instruction that jumps or ends threads: `@P0 EXIT`, `BRA.U !UP0, 0x320`."""
        last = self.graph.blocks[block][-1]
        if not self.jumps_or_ends(block):
            return []
        flags = [last.predicate[1:]] if last.predicate else []
        return [*flags, *(last.operands[:-1] if last.name in JUMPS else ())]

    def _relevant(self) -> set[Definition]:
        waiting: list[Definition] = []
        for block, at, instruction, request in self.requests:
            waiting += self.read_in(block, at, (request.operand, instruction.predicate or ""))
        for block in self.order:
            waiting += self.read_in(block, len(self.graph.blocks[block]) - 1, self.conditions(block))
        seen = set(waiting)
        while waiting:
            for source in self.reaching.sources(waiting.pop()):
                if source not in seen:
                    seen.add(source)
                    waiting.append(source)
        return seen

    def _number_nodes(self, places: Iterable[Definition]) -> None:
        by_block: dict[int, list[Definition]] = {}
        for place in places:
            by_block.setdefault(place.block, []).append(place)
        self.nodes: list[Node] = []
        self.of_block: dict[int, range] = {}
        """The numbers of a block's nodes: its beginning, its definitions, its end."""
        self.numbers: dict[Definition, int] = {}
        for block in self.order:
            first = len(self.nodes)
            # Joins first, and the unguarded result of an instruction before its guarded one.
            own = sorted(by_block.get(block, ()), key=lambda place: (place.at, not place.unguarded, place.name))
            self.numbers.update({place: first + 1 + index for index, place in enumerate(own)})
            self.nodes += [Node(block, None), *(Node(block, place) for place in own), Node(block, None)]
            self.of_block[block] = range(first, len(self.nodes))
        self.reads: list[tuple[int, ...]] = [self._read_by_node(number) for number in range(len(self.nodes))]
        """The numbers of the definitions that each node depends on."""
        self.users: list[list[int]] = [[] for _ in self.nodes]
        """The numbers of the nodes that depend on each node."""
        for number, reads in enumerate(self.reads):
            for source in reads:
                self.users[source].append(number)

    def _read_by_node(self, number: int) -> tuple[int, ...]:
        block, place = self.nodes[number]
        if place is not None:
            return tuple([self.numbers[source] for source in self.reaching.sources(place)])
        if number == self.of_block[block].start:
            return ()
        end = len(self.graph.blocks[block]) - 1
        return tuple([self.numbers[source] for source in self.read_in(block, end, self.conditions(block))])


@lru_cache(maxsize=2)
def definition_graph(graph: ControlFlowGraph) -> DefinitionGraph:
    """Return the definitions of a kernel; those of the last kernels are cached."""
    return DefinitionGraph(graph)
