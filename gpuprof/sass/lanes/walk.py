"""Follows what is known of registers through a kernel: on all paths, through all iterations of its loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from gpuprof.sass.flow.graph import ENDS, ControlFlowGraph, reconvergence
from gpuprof.sass.instruction import JUMPS, Instruction
from gpuprof.sass.lanes.effects import Effect
from gpuprof.sass.lanes.learned import LEARNING, Learned
from gpuprof.sass.lanes.operands import Guarded, Reader, ThreadBlock, WarpRegisters
from gpuprof.sass.lanes.relevance import relevance_of
from gpuprof.sass.lanes.rules import results
from gpuprof.sass.lanes.values import ONE, LaneValue, bits, choose, exactly, mix

_LEADS_AWAY = JUMPS | ENDS
_NUMBERED = re.compile(r"U?[RP]\d+")

Visit = Callable[[Instruction, Reader], None]

_Asked = tuple[Instruction, int, "list[tuple[str, LaneValue | None]]"]
"""An instruction that asks, the lanes that may be running, and what it reads holds under its predicate."""


class _Ran(NamedTuple):
    """What is known on the edges that leave a block, whether lanes may diverge at its end, and what it asks."""

    left: dict[int, WarpRegisters]
    diverged: bool
    asked: list[_Asked]


class Walk:
    """One kernel in one warp of a block of threads, and what is known of its registers.

    At first nothing; then the blocks are gone through until nothing new is found. What is known of a block's beginning
    is what holds on all edges that lead there, and only ever becomes less. `settled` tells that it came to that within
    so many rounds; None: as many as it takes.
    """

    def __init__(
        self,
        graph: ControlFlowGraph,
        block: ThreadBlock,
        constants: Mapping[int, int],
        most_rounds: int | None = None,
        addresses: frozenset[int] | None = None,
    ) -> None:
        LEARNING.tidy()
        self._graph, self._block, self._constants = graph, block, LEARNING.same_constants(constants)
        self._order, self._predecessors = graph.order(), graph.predecessors()
        self._relevance = relevance_of(graph, addresses)
        self._begins: dict[int, WarpRegisters] = {}
        self._edges: dict[tuple[int, int], WarpRegisters] = {}
        self._asked: dict[int, list[_Asked]] = {}
        self._changed = set(self._order)
        self._diverged: set[int] = set()
        self._mixed: dict[int, frozenset[str] | None] = {}
        rounds = count() if most_rounds is None else range(most_rounds)
        self.settled = any(not self._learn() for _ in rounds)

    def every_iteration(self, visit: Visit) -> None:
        """Visit the memory instructions and branches that this warp can come to, with what holds each time.

        Only what matters for addresses, branches and predicates of both is known of registers.
        """
        for asked in self._asked.values():
            self._visit(asked, visit)

    def first_iteration(self, visit: Visit) -> None:
        """Visit those of which more may be known in the first iteration of each loop that they are in, with that."""
        if not self._graph.loops:
            return
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
            if state is None:
                continue
            if number in self._begins and state.same_as(self._begins[number]):
                left = {target: self._edges.get((number, target)) for target in self._graph.successors[number]}
                edges.update({(number, target): kept for target, kept in left.items() if kept is not None})
                continue
            ran = self._run(number, state)
            self._visit(ran.asked, visit)
            edges.update({(number, target): state for target, state in ran.left.items()})

    def _leaves(self, source: int, target: int) -> bool:
        """Tell whether the edge from a block to another leaves a loop."""
        around = self._graph.loops_around.get(source, ())
        return any(target not in self._graph.loops[header] for header in around)

    def _learn(self) -> bool:
        """Go through the blocks once; tell whether something new was found."""
        new = False
        for number in self._order:
            if number not in self._changed:
                continue
            self._changed.discard(number)
            state = self._meet(number, [self._edges.get((source, number)) for source in self._predecessors[number]])
            old = self._begins.get(number)
            if state is None:
                continue
            if old is not None:
                state = _joined([old, state])
                if state.same_as(old):
                    continue
            new = True
            self._begins[number] = state
            ran = self._run(number, state)
            self._asked[number] = ran.asked
            self._leave_on(number, ran.left)
            if ran.diverged and number not in self._diverged:
                self._diverge(number)
        return new

    def _leave_on(self, number: int, left: Mapping[int, WarpRegisters]) -> None:
        """Note what is known on the edges that leave a block."""
        for target, state in left.items():
            old = self._edges.get((number, target))
            if old is None or not state.same_as(old):
                self._edges[number, target] = state
                self._changed.add(target)

    def _diverge(self, number: int) -> None:
        """Note where lanes that diverge at the end of a block reconverge."""
        self._diverged.add(number)
        merge = reconvergence(self._graph, number)
        for block in merge.blocks:
            mixed = self._mixed.get(block, frozenset())
            self._mixed[block] = None if mixed is None or merge.written is None else mixed | merge.written
        self._changed |= merge.blocks

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
            held = states[0].values[name]
            if held.exact and all(part is held for part, _ in parts):
                joined.put(name, held)
            elif all(part is not None and part.exact for part, _ in parts):
                joined.put(name, LEARNING.same(mix(parts)))
        return joined

    def _visit(self, asked: Iterable[_Asked], visit: Visit) -> None:
        for instruction, active, held in asked:
            known = {name: value for name, value in held if value is not None}
            visit(instruction, Reader(instruction, WarpRegisters(active, known), self._block, self._constants))

    def _run(self, number: int, begin: WarpRegisters) -> _Ran:
        """Run a block."""
        state = WarpRegisters(begin.active, begin.values, begin.guarded)
        asked: list[_Asked] = []
        anywhere = LEARNING.results()
        here = LEARNING.results(state.active, id(self._constants), self._block)
        for instruction, effect, runs, forgets in self._relevance.steps[number]:
            if effect.asks:
                predicate = instruction.predicate
                held = [(name, state.get(name, predicate)) for name in effect.needed_names]
                asked.append((instruction, state.active, held))
            if runs:
                self._execute(effect, state, here if effect.here else anywhere)
            else:
                state.forget(forgets)
        last = self._graph.blocks[number][-1]
        leads_away = last.name in _LEADS_AWAY
        flag = _condition(Reader(last, state, self._block, self._constants)) if leads_away else None
        state.forget(self._graph.called.get(number, frozenset()))
        return _Ran(*self._leave(number, state, flag), asked)

    def _execute(self, effect: Effect, state: WarpRegisters, known: dict[object, Learned]) -> None:
        """Change the state as an instruction does; what it did with the same before need not be found out again."""
        values = state.values
        if effect.strict is not None and not effect.strict <= values.keys():
            state.forget(effect.gone_names)
            return
        predicate = effect.instruction.predicate
        inputs = state.read(effect.read_names) if predicate else [*map(values.get, effect.read_names)]
        key = (effect.text, *map(id, inputs))
        learned = known.get(key)
        if learned is None:
            reader = Reader(effect.instruction, state, self._block, self._constants)
            learned = known[key] = LEARNING.learned(inputs, tuple(_puts(reader)))
        for name, held, guarded in learned.puts:
            if held is not None and not state.guarded:
                values[name] = held
            else:
                state.put(name, held)
            if guarded is not None and predicate:
                state.guard(name, predicate, guarded)

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
                edges[target] = state.kept(lanes, self._relevance.live[target])
        same = flag is not None and flag.uniform and leaving is None
        return edges, len(edges) > 1 and not same


def _joined(states: Sequence[WarpRegisters]) -> WarpRegisters:
    """Return what holds in all of these states."""
    first, *rest = states
    joined = WarpRegisters(first.active, first.values, first.guarded)
    for state in rest:
        joined.active |= state.active
        joined.values = _joined_values(joined.values, state)
        if joined.guarded:
            joined.guarded = _joined_guarded(joined.guarded, state.guarded)
    return joined


def _joined_values(values: Mapping[str, LaneValue], state: WarpRegisters) -> dict[str, LaneValue]:
    """Return what registers hold both by these values and in a state."""
    other = state.values.get
    joined = {}
    for name, held in values.items():
        common = other(name)
        if common is not held:
            common = common if common is not None else state.get(name)
            common = LEARNING.joined(held, common) if common is not None else None
        if common is not None:
            joined[name] = common
    return joined


def _joined_guarded(guarded: Mapping[str, Guarded], other: Mapping[str, Guarded]) -> dict[str, Guarded]:
    """Return what registers hold under the same predicate here and there."""
    joined = {}
    for name in guarded.keys() & other.keys():
        (predicate, held), (other_predicate, other_held) = guarded[name], other[name]
        common = LEARNING.joined(held, other_held) if predicate == other_predicate else None
        if common is not None:
            joined[name] = predicate, common
    return joined


def _puts(reader: Reader) -> Iterator[tuple[str, LaneValue | None, LaneValue | None]]:
    """Yield what an instruction changes: each register with what it holds, and that where its predicate is true."""
    instruction, state = reader.instruction, reader.state
    flag = reader.flag(instruction.predicate[1:]) if instruction.predicate else ONE
    for name, held in [result for result in results(instruction, reader) if _NUMBERED.fullmatch(result[0])]:
        if not instruction.predicate:
            yield name, held, None
            continue
        chosen = choose(flag, held, state.get(name, _opposite(instruction.predicate)), state.active)
        yield name, chosen, None if instruction.predicate.endswith(name) else held


def _opposite(predicate: str) -> str:
    """Return the predicate that holds in the other lanes: `@!P0` for `@P0`."""
    return predicate.replace("!", "") if "!" in predicate else predicate.replace("@", "@!")


def _condition(reader: Reader) -> LaneValue | None:
    """Return in which lanes an instruction leads away: `@P0 EXIT`, `BRA.U !UP0, 0x320`."""
    last = reader.instruction
    flags = [last.predicate[1:]] if last.predicate else []
    flags += last.operands[:-1] if last.name in JUMPS else ()
    return exactly(lambda *values: int(all(values)), *map(reader.flag, flags)) if flags else ONE
