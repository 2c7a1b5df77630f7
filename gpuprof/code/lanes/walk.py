"""Follows what is known of registers through a kernel: on all paths, through all iterations of its loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import count
from operator import or_

from gpuprof.code.lanes.graph import ENDS, ControlFlowGraph, reconvergence
from gpuprof.code.lanes.operands import Reader, ThreadBlock, WarpRegisters
from gpuprof.code.lanes.rules import results
from gpuprof.code.lanes.values import ONE, LaneValue, bits, choose, exactly, join, mix
from gpuprof.code.sass import JUMPS, Instruction

_NUMBERED = re.compile(r"U?[RP]\d+")

Visit = Callable[[Instruction, Reader], None]


class Walk:
    """One kernel in one warp of a block of threads, and what is known of its registers.

    At first nothing; then the blocks are gone through until nothing new is found. What is known of a block's beginning
    is what holds on all edges that lead there, and only ever becomes less. `settled` tells that it came to that within
    so many rounds; None: as many as it takes.
    """

    def __init__(
        self, graph: ControlFlowGraph, block: ThreadBlock, constants: Mapping[int, int], most_rounds: int | None = None
    ) -> None:
        self._graph, self._block, self._constants = graph, block, constants
        self._order, self._predecessors = graph.order(), graph.predecessors()
        self._begins: dict[int, WarpRegisters] = {}
        self._edges: dict[tuple[int, int], WarpRegisters] = {}
        self._diverged: set[int] = set()
        self._mixed: dict[int, frozenset[str] | None] = {}
        rounds = count() if most_rounds is None else range(most_rounds)
        self.settled = any(not self._learn() for _ in rounds)

    def every_iteration(self, visit: Visit) -> None:
        """Visit the instructions that this warp can come to, with what holds each time that they run."""
        for number, state in self._begins.items():
            self._run(number, state, visit)

    def first_iteration(self, visit: Visit) -> None:
        """Visit the instructions with what holds in the first iteration of each loop that they are in."""
        place = {number: index for index, number in enumerate(self._order)}
        edges: dict[tuple[int, int], WarpRegisters] = {}
        for number in self._order:
            body = self._graph.loops.get(number, ())
            sources = [source for source in self._predecessors[number] if source not in body]
            known = {
                source: self._edges if place.get(source, 0) >= place[number] or self._leaves(source, number) else edges
                for source in sources
            }
            state = self._meet(number, [known[source].get((source, number)) for source in sources])
            if state is not None:
                left, _ = self._run(number, state, visit)
                edges.update({(number, target): state for target, state in left.items()})

    def _leaves(self, source: int, target: int) -> bool:
        """Tell whether the edge from a block to another leaves a loop."""
        return any(source in loop and target not in loop for loop in self._graph.loops.values())

    def _learn(self) -> bool:
        """Go through the blocks once; tell whether something new was found."""
        new = False
        for number in self._order:
            state = self._meet(number, [self._edges.get((source, number)) for source in self._predecessors[number]])
            old = self._begins.get(number)
            if state is None:
                continue
            if old is not None:
                state = _joined([old, state])
                if (state.active, state.values, state.guarded) == (old.active, old.values, old.guarded):
                    continue
            new = True
            self._begins[number] = state
            left, diverged = self._run(number, state, lambda *_: None)
            self._edges.update({(number, target): state for target, state in left.items()})
            if diverged and number not in self._diverged:
                self._diverge(number)
        return new

    def _diverge(self, number: int) -> None:
        """Note where lanes that diverge at the end of a block reconverge."""
        self._diverged.add(number)
        merge = reconvergence(self._graph, number)
        for block in merge.blocks:
            mixed = self._mixed.get(block, frozenset())
            self._mixed[block] = None if mixed is None or merge.written is None else mixed | merge.written

    def _meet(self, number: int, come: Iterable[WarpRegisters | None]) -> WarpRegisters | None:
        """Return what is known at the beginning of a block; None: this warp does not come there."""
        states = [state for state in come if state is not None]
        if number in self._graph.entries:
            states.append(WarpRegisters(self._block.lanes))
        if not states:
            return None
        joined = _joined(states)
        mixed = self._mixed.get(number, frozenset())
        joined.forget(mixed)
        for name in states[0].values.keys() if mixed is None else mixed & states[0].values.keys():
            parts = [(state.get(name), state.active) for state in states]
            if all(part is not None and part.exact for part, _ in parts):
                joined.put(name, mix(parts))
        return joined

    def _run(self, number: int, begin: WarpRegisters, visit: Visit) -> tuple[dict[int, WarpRegisters], bool]:
        """Run a block; return what is known on the edges that leave it, and whether lanes may diverge at its end."""
        state = WarpRegisters(begin.active, begin.values, begin.guarded)
        block = self._graph.blocks[number]
        for instruction in block:
            reader = Reader(instruction, state, self._block, self._constants)
            visit(instruction, reader)
            if not instruction.idle:
                _execute(reader)
        flag = _condition(Reader(block[-1], state, self._block, self._constants))
        state.forget(self._graph.called.get(number, frozenset()))
        return self._leave(number, state, flag)

    def _leave(
        self, number: int, state: WarpRegisters, flag: LaneValue | None
    ) -> tuple[dict[int, WarpRegisters], bool]:
        """Return what is known on each edge, with the lanes that may take it, and whether they may take several."""
        last, successors = self._graph.blocks[number][-1], self._graph.successors[number]
        leaving = bits(flag) if flag is not None and flag.exact else None
        edges = {}
        for target in successors:
            lanes = state.active
            if leaving is not None and (len(successors) > 1 or last.name not in JUMPS):
                lanes &= leaving if last.target == self._graph.blocks[target][0].address else ~leaving
            if lanes:
                edges[target] = WarpRegisters(lanes, state.values, state.guarded)
        same = flag is not None and flag.uniform and leaving is None
        return edges, len(edges) > 1 and not same


def _joined(states: Sequence[WarpRegisters]) -> WarpRegisters:
    """Return what holds in all of these states."""
    first, *rest = states
    values = {}
    for name, held in first.values.items():
        common: LaneValue | None = held
        for state in rest:
            common = join(common, state.get(name))
        if common is not None:
            values[name] = common
    guarded = {}
    for name, (predicate, held) in first.guarded.items():
        same = [state.guarded.get(name, ("", None)) for state in rest]
        common = held
        for other_predicate, other_held in same:
            common = join(common, other_held) if other_predicate == predicate else None
        if common is not None:
            guarded[name] = (predicate, common)
    return WarpRegisters(reduce(or_, (state.active for state in states)), values, guarded)


def _execute(reader: Reader) -> None:
    """Change the state as an instruction does, in the lanes in which its predicate holds."""
    instruction, state = reader.instruction, reader.state
    flag = reader.flag(instruction.predicate[1:]) if instruction.predicate else ONE
    for name, held in [result for result in results(instruction, reader) if _NUMBERED.fullmatch(result[0])]:
        if not instruction.predicate:
            state.put(name, held)
            continue
        state.put(name, choose(flag, held, state.get(name, _opposite(instruction.predicate)), state.active))
        if not instruction.predicate.endswith(name):
            state.guard(name, instruction.predicate, held)


def _opposite(predicate: str) -> str:
    """Return the predicate that holds in the other lanes: `@!P0` for `@P0`."""
    return predicate.replace("!", "") if "!" in predicate else predicate.replace("@", "@!")


def _condition(reader: Reader) -> LaneValue | None:
    """Return in which lanes the last instruction of a block leads away: `@P0 EXIT`, `BRA.U !UP0, 0x320`."""
    last = reader.instruction
    if last.name not in {*JUMPS, *ENDS}:
        return None
    flags = [last.predicate[1:]] if last.predicate else []
    flags += last.operands[:-1] if last.name in JUMPS else ()
    return exactly(lambda *values: int(all(values)), *map(reader.flag, flags)) if flags else ONE
