"""Reaching definitions in SSA form: where the registers that an instruction reads were written."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from typing import NamedTuple

from gpuprof.sass.flow.branches import Branches
from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import Instruction, Operation
from gpuprof.sass.operands import named, sources
from gpuprof.sass.requests import requests

_MOST_MEETINGS = 50_000
"""Entries of all dominance frontiers; with more, registers are assumed to join wherever paths do."""
_TWO_WORDS = re.compile(r"^(?!U?SHF|MUFU|F2F\.F64|I2F\.F64(?!\.[SU]64)).*64|^D")
_WIDE_ADDEND = re.compile(r"^U?IMAD\..*(?:WIDE|HI)")


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

    def __init__(self, graph: ControlFlowGraph, branches: Branches) -> None:
        self._blocks, self._branches = graph.blocks, branches
        self._wrote: dict[int, Mapping[str, Sequence[int]]] = {}
        self._writing: dict[str, list[int]] = {}
        for block in sorted(branches.reached):
            self._wrote[block] = graph.writers[block]
            for name in graph.writers[block]:
                self._writing.setdefault(name, []).append(block)
        self._entries = frozenset(graph.entries)
        self._called = {block: names for block, names in graph.called.items() if block in branches.reached}
        self._graph = graph
        self._begun: dict[str, dict[int, RegisterPlace]] = {}
        self._met: dict[str, Set[int]] = {}
        self._ways: dict[RegisterPlace, tuple[RegisterPlace, ...]] = {}
        self._reads: dict[RegisterPlace, tuple[RegisterPlace, ...]] = {}

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
        writers = self._wrote.get(block, {}).get(name)
        nearest = bisect_left(writers, index) - 1 if writers else -1
        if writers is None or nearest < 0:
            return self._beginning(block, name)
        return RegisterPlace(block, writers[nearest], name)

    def needs(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        """Return the definitions that an instruction reads, with that of the value before if it may not run."""
        if place.at < 0:
            return ()
        needs = self._reads.get(place)
        if needs is None:
            needs = self._reads[place] = self._read_at(place)
        return needs

    def ways(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        """Return the definitions that come with each edge into a block; none at an entry or behind a call."""
        ways = self._ways.get(place)
        if ways is None:
            begins = place.block in self._entries or place.block in self._returned(place.name)
            sources = () if begins else self.before[place.block]
            ways = self._ways[place] = tuple(
                self.read(source, len(self._blocks[source]), place.name) for source in sources
            )
        return ways

    def _read_at(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        block, at, name, bare = place
        instruction = self._blocks[block][at]
        predicate = instruction.predicate or ""
        if not bare:
            before = self.read(block, at, name, _opposite(predicate))
            return RegisterPlace(block, at, name), before, self.read(block, at, predicate.lstrip("@!"))
        return tuple(
            self.read(block, at, source, instruction.predicate) for source in _names_read(instruction.operation)
        )

    def _beginning(self, block: int, name: str) -> RegisterPlace:
        """Return the definition that reaches the beginning of a block."""
        begun, above = self._begun.setdefault(name, {}), self._branches.dominators
        met = self._meetings(name)
        passed = []
        while block not in begun:
            passed.append(block)
            before = above.get(block, block)
            if block in met or before == block:
                begun[block] = RegisterPlace(block, -1, name)
            elif name in self._wrote[before]:
                begun[block] = self._last(before, len(self._blocks[before]), name)
            else:
                block = before
        place = begun[block]
        begun.update(dict.fromkeys(passed, place))
        return place

    # Where ways meet

    @cached_property
    def before(self) -> Mapping[int, tuple[int, ...]]:
        """Return the blocks before each that are reached."""
        reached, before = self._branches.reached, self._branches.predecessors
        return {block: tuple(source for source in sources if source in reached) for block, sources in enumerate(before)}

    def _returned(self, name: str) -> Set[int]:
        """Return the blocks behind calls of functions that may write a register."""
        callers = (block for block, names in self._called.items() if names is None or name in names)
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
        above = self._branches.dominators
        last = above[block] if above[block] != block else None
        while source != last:
            yield source
            if above[source] == source:
                break
            source = above[source]


def _opposite(predicate: str) -> str:
    """Return the predicate that is true in the other lanes: `@!P0` for `@P0`."""
    return predicate.replace("!", "") if "!" in predicate else predicate.replace("@", "@!")


@lru_cache(maxsize=1 << 16)
def _names_read(operation: Operation) -> tuple[str, ...]:
    return tuple(dict.fromkeys(registers_read(Instruction.at(0, operation))))


def registers_read(instruction: Instruction) -> Iterator[str]:
    """Yield the registers and predicates that operands name, with the upper register of numbers of two words."""
    read = sources(instruction)
    if _WIDE_ADDEND.match(instruction.opcode):
        wide = read[2:3]
    else:
        wide = read if _TWO_WORDS.search(instruction.opcode) and not requests(instruction) else ()
    for operand in read:
        for name in named(operand):
            yield name
            kind = name.rstrip("0123456789")
            if operand in wide and kind[-1] == "R":
                yield f"{kind}{int(name[len(kind) :]) + 1}"
