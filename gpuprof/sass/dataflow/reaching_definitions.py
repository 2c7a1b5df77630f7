"""Reaching definitions in SSA form: the definition of each register that an instruction reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from typing import NamedTuple

from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import registers_read

_MOST_FRONTIERS = 50_000
"""Limit on the size of all dominance frontiers. With more, all registers have joins in all blocks where paths meet."""


class Definition(NamedTuple):
    """A definition of a register, by the instruction at index `at` of a block; -1: by a join at its beginning.

    `unguarded`: the result as if the predicate of that instruction were true. Otherwise the value is a selection
    between that result and the value before.
    """

    block: int
    at: int
    name: str
    unguarded: bool = True


class ReachingDefinitions:
    """The definitions of one kernel.

    A register has a definition of its own at the beginning of a block, a join, if different definitions reach it
    (dominance frontiers: Cytron et al., Efficiently Computing Static Single Assignment Form, 1991), if a function
    begins or returns there, or if the block follows a loop that writes the register: lanes may leave the loop in
    different iterations. Otherwise the definition at the end of the immediate dominator reaches it.
    """

    def __init__(self, graph: ControlFlowGraph) -> None:
        self._blocks = graph.blocks
        self._writing: dict[str, list[int]] = {}
        for block in sorted(graph.order):
            for name in graph.writers[block]:
                self._writing.setdefault(name, []).append(block)
        self._entries = frozenset(graph.entries)
        self.before = {block: graph.predecessors[block] for block in sorted(graph.order)}
        self._called = {block: names for block, names in graph.called.items() if block in self.before}
        self._graph = graph
        self._beginnings: dict[str, dict[int, Definition]] = {}
        self._joins: dict[str, Set[int]] = {}
        self._sources: dict[Definition, tuple[Definition, ...]] = {}

    def read(self, block: int, index: int, name: str, predicate: str | None = None) -> Definition:
        """Return the definition of a register that reaches an instruction with this predicate."""
        place = self._last(block, index, name)
        if place.at < 0:
            return place
        guard = self._blocks[place.block][place.at].predicate
        if guard is None or (guard == predicate and self._same_flag(guard, place, block, index)):
            return place
        return place._replace(unguarded=False)

    def _same_flag(self, guard: str, place: Definition, block: int, index: int) -> bool:
        """Return whether a predicate has the same value at two places."""
        flag = guard.lstrip("@!")
        return self._last(place.block, place.at, flag) == self._last(block, index, flag)

    def _last(self, block: int, index: int, name: str) -> Definition:
        """Return the last definition before an instruction."""
        writers = self._graph.writers[block].get(name)
        nearest = bisect_left(writers, index) - 1 if writers else -1
        if writers is None or nearest < 0:
            return self._beginning(block, name)
        return Definition(block, writers[nearest], name)

    def instruction(self, place: Definition) -> Instruction:
        """Return the instruction of a definition."""
        return self._blocks[place.block][place.at]

    def sources(self, place: Definition) -> tuple[Definition, ...]:
        """Return the definitions that one depends on: those that its instruction reads, or that reach its join.

        A guarded definition has three: its unguarded result, the value before, and its predicate. At an entry, and
        after a call that may write the register, there are none.
        """
        known = self._sources.get(place)
        if known is None:
            known = self._sources_of_instruction(place) if place.at >= 0 else self._sources_of_join(place)
            self._sources[place] = known
        return known

    def _sources_of_join(self, place: Definition) -> tuple[Definition, ...]:
        if place.block in self._entries or place.block in self._returns_of(place.name):
            return ()
        return tuple([self.read(block, len(self._blocks[block]), place.name) for block in self.before[place.block]])

    def _sources_of_instruction(self, place: Definition) -> tuple[Definition, ...]:
        block, at, name, unguarded = place
        instruction = self._blocks[block][at]
        predicate = instruction.predicate or ""
        if not unguarded:
            before = self.read(block, at, name, _opposite(predicate))
            return Definition(block, at, name), before, self.read(block, at, predicate.lstrip("@!"))
        return tuple(self.read(block, at, source, instruction.predicate) for source in registers_read(instruction))

    def _beginning(self, block: int, name: str) -> Definition:
        """Return the definition that reaches the beginning of a block."""
        beginnings = self._beginnings.setdefault(name, {})
        above = self._graph.dominators
        joins = self._join_blocks(name)
        passed = []
        while block not in beginnings:
            passed.append(block)
            before = above.get(block, block)
            if block in joins or before == block:
                beginnings[block] = Definition(block, -1, name)
            elif name in self._graph.writers[before]:
                beginnings[block] = self._last(before, len(self._blocks[before]), name)
            else:
                block = before
        place = beginnings[block]
        beginnings.update(dict.fromkeys(passed, place))
        return place

    # Joins

    def _returns_of(self, name: str) -> Set[int]:
        """Return the blocks after calls of functions that may write a register."""
        callers = (block for block, names in self._called.items() if name in names)
        return {successor for block in callers for successor in self._graph.successors[block]}

    def _loop_exits_of(self, name: str) -> Set[int]:
        """Return the blocks after loops that write a register."""
        around = self._graph.loops_around
        headers = {header for block in self._writing.get(name, ()) for header in around.get(block, ())}
        return {block for header in headers for block in self._loop_exits[header]}

    @cached_property
    def _loop_exits(self) -> Mapping[int, Set[int]]:
        """Return the exit targets of each loop."""
        successors = self._graph.successors
        return {
            header: {target for block in body for target in successors[block]} - body
            for header, body in self._graph.loops.items()
        }

    def _join_blocks(self, name: str) -> Set[int]:
        """Return the blocks in which a register has a join."""
        joins = self._joins.get(name)
        if joins is None:
            begin = self._returns_of(name) | self._loop_exits_of(name)
            if len(self._entries) > 1:
                begin |= self._entries
            joins = begin | self._iterated_frontier([*begin, *self._writing.get(name, ())])
            self._joins[name] = joins
        return joins

    def _iterated_frontier(self, blocks: list[int]) -> Set[int]:
        """Return the iterated dominance frontier of blocks."""
        frontiers = self._frontiers
        if frontiers is None:
            return {block for block, sources in self.before.items() if len(sources) > 1}
        joins: set[int] = set()
        while blocks:
            for join in frontiers.get(blocks.pop(), ()):
                if join not in joins:
                    joins.add(join)
                    blocks.append(join)
        return joins

    @cached_property
    def _frontiers(self) -> Mapping[int, list[int]] | None:
        """Return the dominance frontier of each block; None if they are too large."""
        frontiers: dict[int, list[int]] = {}
        left = _MOST_FRONTIERS
        for block, before in self.before.items():
            if len(before) < 2:
                continue
            for source in before:
                for passed in self._dominators_from(source, block):
                    frontier = frontiers.setdefault(passed, [])
                    if frontier and frontier[-1] == block:
                        break
                    frontier.append(block)
                    left -= 1
            if left < 0:
                return None
        return frontiers

    def _dominators_from(self, source: int, block: int) -> Iterator[int]:
        """Yield a predecessor of a block and its dominators, up to the immediate dominator of the block."""
        above = self._graph.dominators
        last = above[block] if above[block] != block else None
        while source != last:
            yield source
            if above[source] == source:
                break
            source = above[source]


def _opposite(predicate: str) -> str:
    """Return the opposite guard: `@!P0` for `@P0`."""
    return predicate.replace("!", "") if "!" in predicate else predicate.replace("@", "@!")
