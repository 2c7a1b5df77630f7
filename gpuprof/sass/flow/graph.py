"""The control flow of a kernel: its basic blocks with their loops, and where lanes that diverge reconverge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from gpuprof.sass.flow.blocks import ANYWHERE, ENDS, BasicBlock, FoundBlocks
from gpuprof.sass.flow.dominators import DominatorTree, immediate_dominators, natural_loops
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.writes import may_write

__all__ = ["ENDS", "ControlFlowGraph", "Reconvergence", "flow_of", "graph_of", "reconvergence"]

_SCRATCH = frozenset(
    [f"R{number}" for number in range(4, 16)]
    + [f"UR{number}" for number in range(63)]
    + [f"{kind}{number}" for kind in ("P", "UP") for number in range(7)]
)
"""What a function that lies elsewhere is taken to write: it returns in R4 and the next, and keeps what is read after
it and is none of these."""


@dataclass(frozen=True, eq=False)
class ControlFlowGraph:
    """The basic blocks of a kernel, by number; the first begins it.

    `successors`: the blocks that can come next. `calls`: of blocks that end with a call the block that it calls; None:
    it is elsewhere. `jumps`: the addresses of calls that are jumps.
    """

    blocks: tuple[BasicBlock, ...]
    successors: tuple[tuple[int, ...], ...]
    calls: Mapping[int, int | None]
    jumps: frozenset[int]
    _reconvergence: dict[int, Reconvergence] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def is_known(self) -> bool:
        """Return whether the targets of all jumps are in the code."""
        return not any(block[-1].name in ANYWHERE for block in self.blocks)

    @cached_property
    def entries(self) -> tuple[int, ...]:
        """Return the blocks that begin the kernel and functions that it calls."""
        return tuple(dict.fromkeys((0, *(target for target in self.calls.values() if target is not None))))

    @cached_property
    def tree(self) -> DominatorTree:
        """Return which block dominates which, on ways from the beginning of the kernel."""
        return DominatorTree(self.successors, 0)

    @cached_property
    def loops(self) -> Mapping[int, frozenset[int]]:
        """Return the header of each loop, and its blocks."""
        return natural_loops(self.successors, self.tree) if self.blocks else {}

    def predecessors(self) -> list[list[int]]:
        """Return the predecessors of each block."""
        return self._predecessors

    @cached_property
    def _predecessors(self) -> list[list[int]]:
        predecessors: list[list[int]] = [[] for _ in self.blocks]
        for block, successors in enumerate(self.successors):
            for successor in successors:
                predecessors[successor].append(block)
        return predecessors

    @cached_property
    def loops_around(self) -> Mapping[int, tuple[int, ...]]:
        """Return the headers of the loops around each block, the innermost first; none for those that are in none."""
        around: dict[int, list[int]] = {}
        for header, body in sorted(self.loops.items(), key=lambda loop: len(loop[1])):
            for block in body:
                around.setdefault(block, []).append(header)
        return {block: tuple(headers) for block, headers in around.items()}

    @cached_property
    def writers(self) -> tuple[Mapping[str, Sequence[int]], ...]:
        """Return of each block what its instructions may write, and for each name their places in the block."""
        return tuple(map(_writers, self.blocks))

    @cached_property
    def written(self) -> tuple[frozenset[str] | None, ...]:
        """Return what each block may write, with the function that it calls; None: any register."""
        called = [self.called.get(number, frozenset()) for number in range(len(self.blocks))]
        return tuple(None if more is None else more.union(own) for own, more in zip(self.writers, called, strict=True))

    @cached_property
    def called(self) -> Mapping[int, frozenset[str] | None]:
        """Return for blocks that end with a call the registers and predicates that it may write; None: any."""
        by_function = {target: self._written_by(target) for target in set(self.calls.values())}
        return {number: by_function[target] for number, target in self.calls.items()}

    def _written_by(self, function: int | None) -> frozenset[str]:
        """Return what a function may write, with those that it calls."""
        names: set[str] = set()
        seen: set[int] = set()
        waiting = [function]
        while waiting:
            block = waiting.pop()
            if block is None:
                names |= _SCRATCH
            elif block not in seen:
                seen.add(block)
                names.update(self.writers[block])
                waiting += [*self.successors[block], *([self.calls[block]] if block in self.calls else [])]
        return frozenset(names)

    @cached_property
    def common_ends(self) -> Mapping[int, int]:
        """Map blocks to their immediate postdominators; blocks without one are left out."""
        return _common_ends(self.successors, self._predecessors)

    def order(self) -> list[int]:
        """Return the blocks that can be reached, each after those that it comes after, but for loops."""
        seen: set[int] = set()
        order: list[int] = []
        for entry in self.entries:
            waiting = [(entry, iter(self.successors[entry]))] if entry not in seen else []
            seen.add(entry)
            while waiting:
                successor = next((successor for successor in waiting[-1][1] if successor not in seen), None)
                if successor is None:
                    order.append(waiting.pop()[0])
                else:
                    seen.add(successor)
                    waiting.append((successor, iter(self.successors[successor])))
        return order[::-1]


class Reconvergence(NamedTuple):
    """Where lanes that diverge at a branch reconverge, and what they may have written since; None: anything."""

    blocks: frozenset[int]
    written: frozenset[str] | None


def graph_of(code: Sequence[Instruction]) -> ControlFlowGraph | None:
    """Return the graph of a kernel; None if jumps have targets that are not in the code."""
    graph = flow_of(code)
    return graph if graph.blocks and graph.is_known else None


def flow_of(code: Sequence[Instruction]) -> ControlFlowGraph:
    """Return the graph of a kernel without ways that lead to unknown places.

    The graphs of the last kernels are kept.
    """
    return _flow_of(_Same(tuple(code)))


class _Same:
    """Code as a key, equal to that of the same object alone: so the instructions need not be compared."""

    def __init__(self, code: tuple[Instruction, ...]) -> None:
        self.code = code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.code is self.code

    def __hash__(self) -> int:
        return id(self.code)


@lru_cache(maxsize=2)
def _flow_of(same: _Same) -> ControlFlowGraph:
    parts = FoundBlocks(same.code)
    return ControlFlowGraph(parts.blocks, parts.successors(), calls=parts.calls(), jumps=parts.jumps)


def _writers(block: BasicBlock) -> dict[str, list[int]]:
    writers: dict[str, list[int]] = {}
    for at, instruction in enumerate(block):
        for name in may_write(instruction):
            writers.setdefault(name, []).append(at)
    return writers


def reconvergence(graph: ControlFlowGraph, number: int) -> Reconvergence:
    """Return where lanes that diverge at the end of a block reconverge.

    That is in the block that all ways from there lead to, if there is one; in blocks before it that both ways lead to;
    and behind a loop that they leave after different numbers of iterations.
    """
    known = graph._reconvergence
    if number not in known:
        known[number] = _reconvergence(graph, number)
    return known[number]


def _reconvergence(graph: ControlFlowGraph, number: int) -> Reconvergence:
    end = graph.common_ends.get(number)
    sides = [_reached(graph.successors, successor, end) for successor in graph.successors[number]]
    both = frozenset.intersection(*sides)
    inside = frozenset.union(*sides, {number}) - {end}
    loops = [graph.loops[header] for header in graph.loops_around.get(number, ())]
    before = graph.predecessors()
    blocks = {
        block
        for block in both
        if block == end
        or len(inside.intersection(before[block])) > 1
        or any(block not in loop and loop.intersection(before[block]) for loop in loops)
    }
    return Reconvergence(frozenset(blocks), _all_written(graph, frozenset.union(*sides) - {end}))


def _all_written(graph: ControlFlowGraph, blocks: Iterable[int]) -> frozenset[str] | None:
    names: set[str] = set()
    for block in blocks:
        written = graph.written[block]
        if written is None:
            return None
        names |= written
    return frozenset(names)


def _reached(successors: Sequence[Sequence[int]], first: int, end: int | None = None) -> frozenset[int]:
    """Return the blocks that are reached from one, that itself and the end included."""
    seen: set[int] = set()
    waiting = [first]
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            waiting += successors[block] if block != end else ()
    return frozenset(seen)


def _common_ends(successors: Sequence[Sequence[int]], before: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the immediate postdominator of blocks; ways that never come to an end are left out.

    Of blocks from which there is no way to an end, it is the first other block that they lead to.
    """
    whole = len(successors)
    last = [block for block, targets in enumerate(successors) if not targets]
    backwards = [*before, last]
    dominators = immediate_dominators(backwards, whole)
    ends = {block: end for block, end in dominators.items() if end != whole}
    for block in range(whole):
        if block not in dominators:
            others = _reached(successors, block) - {block}
            if others:
                ends[block] = min(others)
    return ends
