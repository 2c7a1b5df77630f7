"""Finds out which number a register holds at a place of a kernel, for all threads, where the code makes it one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.integers import number_of
from gpuprof.sass.lanes.operands import Reader, ThreadBlock, WarpRegisters
from gpuprof.sass.lanes.rules import results
from gpuprof.sass.lanes.values import constant
from gpuprof.sass.operands import named, sources

_DEEPEST = 40
_MOST_STEPS = 20_000
"""Blocks that one kernel is searched for, so that code of any shape takes a bounded time."""
_SPECIAL = {"S2R", "S2UR", "CS2R", "CS2UR"}
_ZERO = "SRZ"
_MOVE = Instruction(address=0, opcode="MOV", operands=(), predicate=None)


class BlockPlace(NamedTuple):
    """An instruction, by its block and its place in that."""

    block: int
    at: int


class NumberFinder:
    """Follows registers back to the numbers that they were set to. `constants`: known bytes of constant bank 0."""

    def __init__(self, graph: ControlFlowGraph, constants: Mapping[int, int]) -> None:
        self.constants = constants
        self._graph = graph
        self._before = graph.predecessors()
        self._steps = _MOST_STEPS
        self._known: dict[tuple[BlockPlace, str, int], int | None] = {}

    def on_entry(self, header: int, body: frozenset[int], name: str) -> int | None:
        """Return what a register holds where a loop is entered, whichever way; None where that is no known number."""
        if header in self._graph.entries:
            return None
        return self._at_ends([block for block in self._before[header] if block not in body], name, _DEEPEST)

    def operand_on_entry(self, header: int, body: frozenset[int], operand: str) -> int | None:
        """Return what an operand of a comparison is where a loop is entered."""
        known = {name: self.on_entry(header, body, name) for name in named(operand)}
        return self._word(operand, known)

    def _at_ends(self, blocks: Sequence[int], name: str, depth: int) -> int | None:
        """Return what a register holds at the end of each of these blocks, if that is the same number."""
        writers = self._writers(blocks, name) if depth else []
        held: int | None = None
        for place in writers:
            number = self._written(place, name, depth)
            if number is None or held not in (None, number):
                return None
            held = number
        return held

    def _writers(self, blocks: Sequence[int], name: str) -> list[BlockPlace]:
        """Return the instructions that may have written a register last; none where that is not known."""
        writers: list[BlockPlace] = []
        seen: set[int] = set()
        waiting = list(blocks)
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            called = self._graph.called.get(number, frozenset())
            if self._steps <= 0 or called is None or name in called:
                return []
            place = self._last_before(BlockPlace(number, len(self._graph.blocks[number])), name)
            if place is not None:
                writers.append(place)
            elif number in self._graph.entries or not self._before[number]:
                return []
            else:
                waiting += self._before[number]
        return writers

    def _last_before(self, place: BlockPlace, name: str) -> BlockPlace | None:
        """Return the last instruction of a block before a place that may write a register."""
        self._steps -= 1
        writers = self._graph.writers[place.block].get(name, ())
        nearest = bisect_left(writers, place.at) - 1
        return BlockPlace(place.block, writers[nearest]) if nearest >= 0 else None

    def _held(self, place: BlockPlace, name: str, depth: int) -> int | None:
        """Return what a register holds before an instruction."""
        last = self._last_before(place, name)
        if last is not None:
            return self._written(last, name, depth - 1) if depth else None
        if place.block in self._graph.entries:
            return None
        return self._at_ends(self._before[place.block], name, depth - 1) if depth else None

    def _written(self, place: BlockPlace, name: str, depth: int) -> int | None:
        """Return what an instruction writes to a register."""
        key = place, name, depth
        if key not in self._known:
            self._known[key] = self._worked_out(place, name, depth)
        return self._known[key]

    def _worked_out(self, place: BlockPlace, name: str, depth: int) -> int | None:
        instruction = self._graph.blocks[place.block][place.at]
        special = instruction.name in _SPECIAL and instruction.operands[-1:] != (_ZERO,)
        if instruction.predicate is not None or special or depth <= 0:
            return None
        names = {read for operand in sources(instruction) for read in named(operand)}
        known = {read: self._held(place, read, depth - 1) for read in names}
        return self._result(instruction, known, name)

    def _result(self, instruction: Instruction, known: Mapping[str, int | None], name: str) -> int | None:
        reader = self._reader(instruction, known)
        return number_of(dict(results(instruction, reader)).get(name))

    def _word(self, operand: str, known: Mapping[str, int | None]) -> int | None:
        return number_of(self._reader(_MOVE, known).word(operand))

    def _reader(self, instruction: Instruction, known: Mapping[str, int | None]) -> Reader:
        values = {name: constant(number) for name, number in known.items() if number is not None}
        return Reader(instruction, WarpRegisters(-1, values), ThreadBlock((1, 1, 1)), self.constants)
