"""Reaching definitions in SSA form: where the registers that an instruction reads were written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from typing import NamedTuple

from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import registers_read

_MOST_MEETINGS = 50_000
"""Entries of all dominance frontiers; with more, registers are assumed to join wherever paths do."""


class RegisterPlace(NamedTuple):
    """A definition of a register: by the instruction `at` an index in a block; -1: at the beginning of the block.

    `bare`: as if the predicate of that instruction were true.
    """

    block: int
    at: int
    name: str
    bare: bool = True


class ReachingDefinitions:
    """The definitions of one kernel.

    A block begins with the definitions that its immediate dominator leaves behind, unless different definitions join
    in it (its dominance frontier: Cytron et al., Efficiently Computing Static Single Assignment Form, 1991), a
    function begins or returns there, or a loop that writes the register was left: lanes may leave it in different
    iterations.
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
        self._begun: dict[str, dict[int, RegisterPlace]] = {}
        self._met: dict[str, Set[int]] = {}
        self._sources: dict[RegisterPlace, tuple[RegisterPlace, ...]] = {}

    def read(self, block: int, index: int, name: str, predicate: str | None = None) -> RegisterPlace:
        """Return the definition of a register that is read before an instruction, under a predicate."""
        place = self._last(block, index, name)
        if place.at < 0:
            return place
        guard = self._blocks[place.block][place.at].predicate
        if guard is None or (guard == predicate and self._same_flag(guard, place, block, index)):
            return place
        return place._replace(bare=False)

    def _same_flag(self, guard: str, place: RegisterPlace, block: int, index: int) -> bool:
        """Return whether a predicate has the same value at two places."""
        flag = guard.lstrip("@!")
        return self._last(place.block, place.at, flag) == self._last(block, index, flag)

    def _last(self, block: int, index: int, name: str) -> RegisterPlace:
        """Return the last definition before an instruction."""
        writers = self._graph.writers[block].get(name)
        nearest = bisect_left(writers, index) - 1 if writers else -1
        if writers is None or nearest < 0:
            return self._beginning(block, name)
        return RegisterPlace(block, writers[nearest], name)

    def instruction(self, place: RegisterPlace) -> Instruction:
        """Return the instruction of a definition."""
        return self._blocks[place.block][place.at]

    def sources(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        """Return the definitions that one follows from: those that an instruction reads, or that come to a block.

        What is written under a predicate follows from the value before, too. At an entry, and behind a call that may
        write the register, a block begins with what follows from nothing.
        """
        known = self._sources.get(place)
        if known is None:
            known = self._sources[place] = self._read_at(place) if place.at >= 0 else self._coming(place)
        return known

    def _coming(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        if place.block in self._entries or place.block in self._returned(place.name):
            return ()
        return tuple([self.read(block, len(self._blocks[block]), place.name) for block in self.before[place.block]])

    def _read_at(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        block, at, name, bare = place
        instruction = self._blocks[block][at]
        predicate = instruction.predicate or ""
        if not bare:
            before = self.read(block, at, name, _opposite(predicate))
            return RegisterPlace(block, at, name), before, self.read(block, at, predicate.lstrip("@!"))
        return tuple(self.read(block, at, source, instruction.predicate) for source in registers_read(instruction))

    def _beginning(self, block: int, name: str) -> RegisterPlace:
        """Return the definition that reaches the beginning of a block."""
        begun, above = self._begun.setdefault(name, {}), self._graph.dominators
        met = self._meetings(name)
        passed = []
        while block not in begun:
            passed.append(block)
            before = above.get(block, block)
            if block in met or before == block:
                begun[block] = RegisterPlace(block, -1, name)
            elif name in self._graph.writers[before]:
                begun[block] = self._last(before, len(self._blocks[before]), name)
            else:
                block = before
        place = begun[block]
        begun.update(dict.fromkeys(passed, place))
        return place

    # Where ways meet

    def _returned(self, name: str) -> Set[int]:
        """Return the blocks behind calls of functions that may write a register."""
        callers = (block for block, names in self._called.items() if name in names)
        return {successor for block in callers for successor in self._graph.successors[block]}

    def _left(self, name: str) -> Set[int]:
        """Return the blocks behind loops that write a register."""
        around = self._graph.loops_around
        headers = {header for block in self._writing.get(name, ()) for header in around.get(block, ())}
        return {block for header in headers for block in self._behind[header]}

    @cached_property
    def _behind(self) -> Mapping[int, Set[int]]:
        """Return for each loop the blocks that it is left to."""
        successors = self._graph.successors
        return {
            header: {target for block in body for target in successors[block]} - body
            for header, body in self._graph.loops.items()
        }

    def _meetings(self, name: str) -> Set[int]:
        """Return the blocks that begin with a register of their own: the ways to them come from different writers."""
        met = self._met.get(name)
        if met is None:
            begin = self._returned(name) | self._left(name) | (self._entries if len(self._entries) > 1 else frozenset())
            met = self._met[name] = begin | self._spread([*begin, *self._writing.get(name, ())])
        return met

    def _spread(self, blocks: list[int]) -> Set[int]:
        frontiers = self._frontiers
        if frontiers is None:
            return {block for block, sources in self.before.items() if len(sources) > 1}
        met: set[int] = set()
        while blocks:
            for meeting in frontiers.get(blocks.pop(), ()):
                if meeting not in met:
                    met.add(meeting)
                    blocks.append(meeting)
        return met

    @cached_property
    def _frontiers(self) -> Mapping[int, list[int]] | None:
        """Return the dominance frontier of each block; None if they are too large."""
        frontiers: dict[int, list[int]] = {}
        left = _MOST_MEETINGS
        for block, before in self.before.items():
            for source in before if len(before) > 1 else ():
                for passed in self._up(source, block):
                    frontier = frontiers.setdefault(passed, [])
                    if frontier and frontier[-1] == block:
                        break
                    frontier.append(block)
                    left -= 1
            if left < 0:
                return None
        return frontiers

    def _up(self, source: int, block: int) -> Iterator[int]:
        """Yield a block before another, and those that all ways to it go through, up to one that is before all."""
        above = self._graph.dominators
        last = above[block] if above[block] != block else None
        while source != last:
            yield source
            if above[source] == source:
                break
            source = above[source]


def _opposite(predicate: str) -> str:
    """Return the predicate that is true in the other lanes: `@!P0` for `@P0`."""
    return predicate.replace("!", "") if "!" in predicate else predicate.replace("@", "@!")
