"""Follows what is known of registers through a kernel: on all paths, through all iterations of its loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import count
from operator import or_

from gpuprof.code.flow.graph import ENDS, ControlFlowGraph, reconvergence
from gpuprof.code.lanes.learned import LEARNING
from gpuprof.code.lanes.operands import Reader, ThreadBlock, WarpRegisters
from gpuprof.code.lanes.relevance import WalkStep, relevance_of
from gpuprof.code.lanes.rules import results
from gpuprof.code.lanes.values import ONE, LaneValue, bits, choose, exactly, join, mix
from gpuprof.code.sass.instruction import JUMPS, Instruction

_LEADS_AWAY = JUMPS | ENDS
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
        LEARNING.tidy()
        self._graph, self._block, self._constants = graph, block, LEARNING.same_constants(constants)
        self._order, self._predecessors = graph.order(), graph.predecessors()
        self._relevance = relevance_of(graph)
        self._begins: dict[int, WarpRegisters] = {}
        self._edges: dict[tuple[int, int], WarpRegisters] = {}
        self._changed = set(self._order)
        self._diverged: set[int] = set()
        self._mixed: dict[int, frozenset[str] | None] = {}
        rounds = count() if most_rounds is None else range(most_rounds)
        self.settled = any(not self._learn() for _ in rounds)

    def every_iteration(self, visit: Visit) -> None:
        """Visit the memory instructions and branches that this warp can come to, with what holds each time.

        Only what matters for addresses, branches and predicates of both is known of registers.
        """
        for number, state in self._begins.items():
            self._visit(number, state, visit)

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
            self._visit(number, state, visit)
            edges.update({(number, target): state for target, state in self._run(number, state)[0].items()})

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
            left, diverged = self._run(number, state)
            self._leave_on(number, left)
            if diverged and number not in self._diverged:
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
            if all(part is not None and part.exact for part, _ in parts):
                joined.put(name, mix(parts))
        return joined

    def _visit(self, number: int, begin: WarpRegisters, visit: Visit) -> None:
        """Run a block as far as there is something to visit."""
        asking = self._relevance.asking[number]
        if not asking:
            return
        state = WarpRegisters(begin.active, begin.values, begin.guarded)
        for step in self._relevance.steps[number][:asking]:
            if step.asks:
                visit(step.instruction, Reader(step.instruction, state, self._block, self._constants))
            if step.relevant:
                self._execute(step, state)

    def _run(self, number: int, begin: WarpRegisters) -> tuple[dict[int, WarpRegisters], bool]:
        """Run a block; return what is known on the edges that leave it, and whether lanes may diverge at its end."""
        state = WarpRegisters(begin.active, begin.values, begin.guarded)
        for step in self._relevance.relevant[number]:
            self._execute(step, state)
        flag = _condition(Reader(self._graph.blocks[number][-1], state, self._block, self._constants))
        state.forget(self._graph.called.get(number, frozenset()))
        return self._leave(number, state, flag)

    def _execute(self, step: WalkStep, state: WarpRegisters) -> None:
        """Change the state as an instruction does; what it did with the same before need not be found out again."""
        if step.strict and not step.strict <= state.values.keys():
            for name in step.gone:
                state.put(name, None)
            return
        predicate = step.instruction.predicate
        inputs = state.read(step.reads, predicate)
        constants, block = self._constants if step.constant else None, self._block if step.special else None
        key = (step.text, state.active, id(constants), block, *map(id, inputs))
        learned = LEARNING.results.get(key)
        if learned is None:
            changed = tuple(_puts(Reader(step.instruction, state, self._block, self._constants)))
            puts = LEARNING.note(key, (inputs, constants), changed)
        else:
            puts = learned.puts
        for name, held, guarded in puts:
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
    active = reduce(or_, (state.active for state in states))
    if not rest:
        return WarpRegisters(active, first.values, first.guarded)
    values = first.values
    for state in rest:
        values = _joined_values(values, state)
    guarded = {}
    for name, (predicate, held) in first.guarded.items():
        same = [state.guarded.get(name, ("", None)) for state in rest]
        common: LaneValue | None = held
        for other_predicate, other_held in same:
            common = join(common, other_held) if other_predicate == predicate else None
        if common is not None:
            guarded[name] = (predicate, common)
    return WarpRegisters(active, values, guarded)


def _joined_values(values: Mapping[str, LaneValue], state: WarpRegisters) -> dict[str, LaneValue]:
    """Return what registers hold both by these values and in a state."""
    other = state.values.get
    joined = {}
    for name, held in values.items():
        common = held if other(name) is held else LEARNING.same(join(held, state.get(name)))
        if common is not None:
            joined[name] = common
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
    """Return in which lanes the last instruction of a block leads away: `@P0 EXIT`, `BRA.U !UP0, 0x320`."""
    last = reader.instruction
    if last.name not in _LEADS_AWAY:
        return None
    flags = [last.predicate[1:]] if last.predicate else []
    flags += last.operands[:-1] if last.name in JUMPS else ()
    return exactly(lambda *values: int(all(values)), *map(reader.flag, flags)) if flags else ONE
