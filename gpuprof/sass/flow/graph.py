"""The control-flow graph of a kernel: basic blocks, loops, and the blocks in which diverged lanes reconverge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from gpuprof.sass.flow.blocks import BasicBlock, BlockEdges, blocks_of
from gpuprof.sass.flow.digraph import Digraph, reached
from gpuprof.sass.instruction import JUMPS, JUMPS_ANYWHERE, Instruction
from gpuprof.sass.operands import written

_SCRATCH = frozenset(
    [f"R{number}" for number in range(4, 16)]
    + [f"UR{number}" for number in range(63)]
    + [f"{kind}{number}" for kind in ("P", "UP") for number in range(7)]
)
"""Registers and predicates that a function outside this code is assumed to write: it returns its result in R4 and the
next ones, and preserves all others that are read after the call."""
_MOST_BLOCKS = 64
"""Limit on the blocks between a block and its dominator that are searched for branches."""


class Reconvergence(NamedTuple):
    """The blocks in which lanes reconverge after a branch, and the registers that may be written in between."""

    blocks: Collection[int]
    written: frozenset[str]


class Loop(NamedTuple):
    """A natural loop, by the address of its header."""

    header: int
    instructions: tuple[Instruction, ...]


class ControlFlowGraph(Digraph):
    """The basic blocks of a kernel, by number. Entries are block 0 and the first blocks of called functions.

    `calls` maps each block that ends with a call to the called block, or to None if that is not in this code. `jumps`
    are the addresses of calls that are jumps.
    """

    def __init__(self, blocks: Sequence[BasicBlock]) -> None:
        edges = BlockEdges(blocks)
        self.blocks = blocks
        self.jumps = edges.jumping_calls()
        self.calls = edges.calls(self.jumps)
        functions = [function for function in self.calls.values() if function is not None]
        super().__init__(edges.successors(self.jumps), tuple(dict.fromkeys((0, *functions))) if blocks else ())
        self._reconvergence: dict[int, Reconvergence] = {}

    @cached_property
    def is_known(self) -> bool:
        """Return whether the targets of all jumps are known."""
        return not any(block[-1].name in JUMPS_ANYWHERE for block in self.blocks)

    @cached_property
    def loops_around(self) -> Mapping[int, tuple[int, ...]]:
        """Map each block in a loop to the headers of the loops around it, the innermost first."""
        around: dict[int, list[int]] = {}
        for header, body in sorted(self.loops.items(), key=lambda loop: len(loop[1])):
            for block in body:
                around.setdefault(block, []).append(header)
        return {block: tuple(headers) for block, headers in around.items()}

    @cached_property
    def writers(self) -> Sequence[Mapping[str, Sequence[int]]]:
        """Return for each block a mapping from each register that it may write to the indices of the writers."""
        return [_writers(block) for block in self.blocks]

    @cached_property
    def called(self) -> Mapping[int, frozenset[str]]:
        """Map each block that ends with a call to the registers and predicates that the called function may write."""
        by_function = {function: self._written_by(function) for function in set(self.calls.values())}
        return {block: by_function[function] for block, function in self.calls.items()}

    def _written_by(self, function: int | None) -> frozenset[str]:
        """Return the registers that a function and those that it calls may write."""
        if function is None:
            return _SCRATCH
        names: set[str] = set()
        for block in reached(self.with_calls, [function]):
            names.update(self.writers[block])
            if block in self.calls and self.calls[block] is None:
                names |= _SCRATCH
        return frozenset(names)

    @cached_property
    def with_calls(self) -> Sequence[Sequence[int]]:
        """Return the successors of each block, with the first block of the function that it calls."""
        edges = [list(successors) for successors in self.successors]
        for block, function in self.calls.items():
            if function is not None:
                edges[block].append(function)
        return edges

    @cached_property
    def _postdominators(self) -> Mapping[int, int]:
        """Map each block from which an end is reachable to its immediate postdominator, or to itself if it has none."""
        ends = [block for block, successors in enumerate(self.successors) if not successors]
        return Digraph(self.predecessors, ends).dominators

    def branches_above(self, block: int) -> Sequence[int]:
        """Return the blocks between a block and its dominator that end with a branch; none if there are too many.

        An EXIT is no branch here: the lanes that exit do not come back, and the others take one path.
        """
        between = reached(self.predecessors, self.predecessors[block], self.dominators[block])
        if len(between) > _MOST_BLOCKS:
            return ()
        return [other for other in between if len(self.successors[other]) > 1 and self.blocks[other][-1].name in JUMPS]

    def reconvergence(self, block: int) -> Reconvergence:
        """Return where lanes that diverge at the end of a block reconverge.

        That is in the block's immediate postdominator, in blocks before it that both paths reach, and after a loop that
        lanes leave in different iterations.
        """
        if block not in self._reconvergence:
            self._reconvergence[block] = self._reconverge(block)
        return self._reconvergence[block]

    def _reconverge(self, block: int) -> Reconvergence:
        end = self._postdominators.get(block)
        if end == block:
            end = None
        sides = [reached(self.successors, [successor], end) for successor in self.successors[block]]
        passed = set[int]().union(*sides) - {end}
        on_ways = passed | {block}
        loops = [self.loops[header] for header in self.loops_around.get(block, ())]
        blocks = set()
        for meeting in set.intersection(*sides):
            before = set(self.predecessors[meeting])
            is_behind_loop = any(meeting not in loop and not loop.isdisjoint(before) for loop in loops)
            if meeting == end or is_behind_loop or len(before & on_ways) > 1:
                blocks.add(meeting)
        return Reconvergence(blocks, self._written_in(passed))

    def _written_in(self, blocks: Iterable[int]) -> frozenset[str]:
        """Return the registers that blocks, and the functions that they call, may write."""
        names: set[str] = set()
        for block in blocks:
            names.update(self.writers[block], self.called.get(block, ()))
        return frozenset(names)


def graph_of(code: Sequence[Instruction]) -> ControlFlowGraph | None:
    """Return the graph of a kernel; None if a jump has an unknown target."""
    graph = flow_of(code)
    return graph if graph.blocks and graph.is_known else None


def flow_of(code: Sequence[Instruction]) -> ControlFlowGraph:
    """Return the graph of a kernel, without edges for jumps to unknown targets.

    The graphs of the last kernels are cached: a review needs the same one some eight times.
    """
    return _flow_of(_Same(tuple(code)))


class _Same:
    """Code as a cache key that compares by identity, so that instructions need not be compared."""

    def __init__(self, code: tuple[Instruction, ...]) -> None:
        self.code = code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.code is self.code

    def __hash__(self) -> int:
        return id(self.code)


@lru_cache(maxsize=2)
def _flow_of(same: _Same) -> ControlFlowGraph:
    return ControlFlowGraph(blocks_of(same.code))


def find_loops(code: Sequence[Instruction]) -> tuple[Loop, ...]:
    """Return the loops of a kernel, the smallest first."""
    graph = flow_of(code)
    loops = []
    for header, body in graph.loops.items():
        instructions = (item for block in sorted(body) for item in graph.blocks[block])
        loops.append(Loop(graph.blocks[header][0].address, tuple(instructions)))
    return tuple(sorted(loops, key=lambda loop: len(loop.instructions)))


def _writers(block: BasicBlock) -> dict[str, list[int]]:
    writers: dict[str, list[int]] = {}
    for at, instruction in enumerate(block):
        for name in written(instruction):
            writers.setdefault(name, []).append(at)
    return writers
