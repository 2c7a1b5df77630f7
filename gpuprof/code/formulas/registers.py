"""Follows addresses back to what they are made of: numbers that differ between lanes, arguments, loaded values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import reduce

from gpuprof.code.flow.branches import Branches
from gpuprof.code.flow.graph import ControlFlowGraph
from gpuprof.code.formulas.results import LaneResults, Written
from gpuprof.code.formulas.sums import ZERO, Sum, SumReader
from gpuprof.code.formulas.symbols import RegisterPlace, Symbol, Symbols, warp_wide
from gpuprof.code.sass.operands import named, sources
from gpuprof.code.sass.writes import may_write

_MOST_STEPS = 60_000
"""Values of registers that are followed in one kernel; what is left then stays unknown."""
_MOST_ROUNDS = 16
"""Each learns what holds where ways meet that lead on from those that the one before has learnt."""


class LaneSums:
    """The registers of one kernel in one warp, as sums of symbols; each is followed when it is asked for.

    `block` None: rows of threads are taken to fill warps. `constants` are known bytes of constant bank 0.
    """

    def __init__(
        self, graph: ControlFlowGraph, block: tuple[int, int, int] | None, constants: Mapping[int, int]
    ) -> None:
        self.graph, self._constants = graph, constants
        self.symbols = Symbols()
        self.branches = Branches(graph)
        self.joins: dict[str, tuple[Sum, ...]] = {}
        self._results = LaneResults(self.symbols, block, constants)
        self._wrote: dict[int, dict[str, list[int]]] = {}
        self._came: dict[RegisterPlace, tuple[RegisterPlace, ...]] = {}
        self._read: dict[RegisterPlace, tuple[RegisterPlace, ...]] = {}
        self._held: dict[RegisterPlace, Sum] = {}
        self._learnt: dict[RegisterPlace, Sum] = {}
        self._settled_joins: dict[str, Sum] = {}
        self._unsettled: dict[RegisterPlace, None] = {}
        self._pending: list[RegisterPlace] = []
        self._deciding: dict[int, tuple[RegisterPlace, ...] | None] = {}
        self._left = _MOST_STEPS

    def addresses(self, asked: Sequence[tuple[int, int, str]]) -> list[Sum | None]:
        """Return the lower words of addresses, each by its block, its instruction and the operand.

        None for forms that are no sums, and in code that is not reached.
        """
        reached = [(block, index, operand) for block, index, operand in asked if block in self.branches.reached]
        for _ in range(_MOST_ROUNDS):
            for block, index, operand in reached:
                for name in named(operand):
                    self._follow(self.read_by(block, index, name))
            if not self._learn():
                break
        return [self._address(*request) for request in asked]

    def _address(self, block: int, index: int, operand: str) -> Sum | None:
        if block not in self.branches.reached:
            return None
        names = {name: self._follow(self.read_by(block, index, name)) for name in named(operand)}
        return SumReader(self.graph.blocks[block][index], names, {}, self._constants).address(operand)

    @property
    def assumed_rows(self) -> bool:
        """Tell whether rows of threads were taken to fill warps."""
        return self._results.assumed_rows

    def held(self, place: RegisterPlace) -> Sum:
        """Return what a register holds."""
        return self._follow(place)

    def read_by(self, block: int, index: int, name: str) -> RegisterPlace:
        """Return what an instruction reads as a register."""
        predicate = self.graph.blocks[block][index].predicate if index < len(self.graph.blocks[block]) else None
        return self._place(block, index, name, predicate)

    # Following

    def _place(self, block: int, index: int, name: str, predicate: str | None = None) -> RegisterPlace:
        """Return where a register that is read before an instruction was written, or the beginning of the block."""
        writers = self._writers(block).get(name, [])
        nearest = bisect_left(writers, index) - 1
        if nearest < 0:
            return RegisterPlace(block, -1, name)
        at = writers[nearest]
        guard = self.graph.blocks[block][at].predicate
        return RegisterPlace(
            block, at, name, bare=guard is None or (guard == predicate and self._kept(block, guard, at, index))
        )

    def _kept(self, block: int, guard: str, since: int, until: int) -> bool:
        """Tell whether a predicate is as it was."""
        writers = self._writers(block).get(guard.lstrip("@!"), [])
        return bisect_left(writers, since) == bisect_left(writers, until)

    def _writers(self, block: int) -> dict[str, list[int]]:
        if block not in self._wrote:
            wrote: dict[str, list[int]] = {}
            for index, instruction in enumerate(self.graph.blocks[block]):
                for name in may_write(instruction):
                    wrote.setdefault(name, []).append(index)
            self._wrote[block] = wrote
        return self._wrote[block]

    def _follow(self, place: RegisterPlace) -> Sum:
        """Return what a register holds; each that it follows from is worked out first."""
        waiting = [place]
        while waiting:
            top = waiting[-1]
            if top in self._held:
                waiting.pop()
                continue
            self._left -= 1
            missing = [need for need in self._needs(top) if need not in self._held] if self._left > 0 else []
            if missing:
                waiting += missing
            else:
                self._held[top] = self._work_out(top)
                waiting.pop()
        return self._held[place]

    def _needs(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        if place.at < 0:
            before = self._before(place)
            return before if len(before) == 1 and place not in self._learnt else ()
        needs = self._read.get(place)
        if needs is None:
            needs = self._read[place] = self._read_at(place)
        return needs

    def _read_at(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        """Return what an instruction reads for what it writes, with what was there before where it may not run."""
        instruction = self.graph.blocks[place.block][place.at]
        if not place.bare:
            guard = (instruction.predicate or "").lstrip("@!")
            return (
                place._replace(bare=True),
                self._place(place.block, place.at, place.name),
                self._place(place.block, place.at, guard),
            )
        names = dict.fromkeys(name for operand in sources(instruction) for name in named(operand))
        return tuple(self._place(place.block, place.at, name, instruction.predicate) for name in names)

    def _before(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        """Return where a register comes from on the ways into a block; nothing for a beginning or behind a call."""
        came = self._came.get(place)
        if came is None:
            came = self._came[place] = self._came_from(place)
        return came

    def _came_from(self, place: RegisterPlace) -> tuple[RegisterPlace, ...]:
        ways = [source for source in self.branches.predecessors[place.block] if source in self.branches.reached]
        if not ways or any(self._lost(source, place.name) for source in ways):
            return ()
        if place.block in self.graph.entries:
            return ()
        return tuple(self._place(source, len(self.graph.blocks[source]), place.name) for source in ways)

    def _lost(self, source: int, name: str) -> bool:
        called = self.graph.called.get(source, frozenset())
        return called is None or name in called

    def _work_out(self, place: RegisterPlace) -> Sum:
        if self._left <= 0:
            return self.symbols.new(f"left {place}", Symbol(kind="result", varies=True, block=place.block))
        if place.at < 0:
            return self._at_beginning(place)
        if not place.bare:
            return self._choice(place)
        needs = self._needs(place)
        reads = {need.name: self._held[need] for need in needs if need in self._held}
        instruction = self.graph.blocks[place.block][place.at]
        return self._results.result(Written(place=place, instruction=instruction, needs=needs, reads=reads))

    # Beginnings and joins

    def _at_beginning(self, place: RegisterPlace) -> Sum:
        if place in self._learnt:
            return self._resolved(self._learnt[place])
        before = self._before(place)
        if len(before) == 1:
            return self._held[before[0]]
        symbol = f"join {place.block} {place.name}"
        if before:
            self._pending.append(place)
            return self.symbols.new(symbol, Symbol(kind="join", varies=not warp_wide(place.name), block=place.block))
        first = place.block in self.graph.entries and len(self.graph.entries) == 1
        alone = first and not self.branches.predecessors[place.block]
        return self.symbols.new(
            f"start {place.block} {place.name}",
            Symbol(kind="start", varies=not (alone or warp_wide(place.name) or place.name == "R1"), block=place.block),
        )

    def _learn(self) -> bool:
        """Settle what joins hold; tell whether one turned out to be more than a symbol, and begin again then."""
        self._pending += [place for place in self._unsettled if place not in self._learnt]
        self._unsettled.clear()
        new = False
        while self._pending and not new:
            while self._pending:
                place = self._pending.pop()
                if place not in self._unsettled:
                    self.joins[_symbol_of(place)] = tuple(self._follow(source) for source in self._before(place))
                    self._unsettled[place] = None
            while self._settle(list(self._unsettled)):
                new = True
        if new:
            self._held.clear()
            self._pending.clear()
        return new and self._left > 0

    def _settle(self, joins: Sequence[RegisterPlace]) -> bool:
        """Go through joins that are not settled as yet; tell whether some now are."""
        before = len(self._learnt)
        for place in joins:
            if place not in self._learnt:
                symbol = _symbol_of(place)
                self.joins[symbol] = tuple(self._resolved(held) for held in self.joins[symbol])
                settled = self._settled(place)
                if settled is not None:
                    self._learnt[place], self._settled_joins[symbol] = settled, settled
        return len(self._learnt) > before

    def _resolved(self, held: Sum) -> Sum:
        """Return a sum with what joins have turned out to be."""
        for _ in range(_MOST_ROUNDS):
            if not any(self._is_settled(symbol) for symbol, _ in held.terms):
                break
            total = Sum(held.number)
            for symbol, factor in held.terms:
                total = total.plus(self._replaced(symbol), factor)
            held = total
        return held

    def _is_settled(self, symbol: str) -> bool:
        return not self._settled_joins.keys().isdisjoint(self.symbols.factors(symbol))

    def _replaced(self, symbol: str) -> Sum:
        factors = [self._settled_joins.get(factor, Sum(0, ((factor, 1),))) for factor in self.symbols.factors(symbol)]
        return reduce(self.symbols.product(self.symbols.of[symbol].block), factors)

    def _settled(self, place: RegisterPlace) -> Sum | None:
        """Return a join as what differs between lanes, the same on all ways, and one symbol for the rest."""
        symbol = _symbol_of(place)
        ways = [held for held in self.joins[symbol] if held != Sum(0, ((symbol, 1),))]
        if not ways or warp_wide(place.name):
            return None
        if len(set(ways)) == 1 and all(term != symbol for term, _ in ways[0].terms):
            return ways[0]
        if place.block not in self.graph.loops and self.diverging(place.block):
            return None
        around = [held for held in ways if (symbol, 1) in held.terms]
        steps = [held.plus(Sum(0, ((symbol, 1),)), -1) for held in around]
        parts = {self.symbols.lane_part(held) for held in ways if held not in around}
        if len(parts) != 1 or any(self.symbols.lane_part(step) != ZERO for step in steps):
            return None
        part, rest = parts.pop(), f"{symbol} in all lanes"
        if any(term == symbol for term, _ in part.terms):
            return None
        self.joins[rest] = self.joins[symbol]
        return part.plus(self.symbols.new(rest, Symbol(kind="join", varies=False, block=place.block)))

    def diverging(self, block: int) -> tuple[RegisterPlace, ...]:
        """Return the predicates by which lanes may have come to a block on different ways."""
        deciding = self.deciding(block)
        if deciding is None:
            return (RegisterPlace(block, -1, "P0"),)
        return tuple(place for place in deciding if self.symbols.varies(self._follow(place)))

    def deciding(self, block: int) -> tuple[RegisterPlace, ...] | None:
        """Return the predicates of the branches between a block and what all ways to it go through; None: too many."""
        if block not in self._deciding:
            guards = self.branches.before(block)
            places = [self._place(*guard) for guard in guards or ()]
            self._deciding[block] = tuple(dict.fromkeys(places)) if guards is not None else None
        return self._deciding[block]

    def _choice(self, place: RegisterPlace) -> Sum:
        yes, no, guard = (self._held.get(need, ZERO) for need in self._needs(place))
        if yes == no:
            return yes
        reads = self._needs(place)
        varies = self.symbols.varies(guard) or self.symbols.lane_part(yes) != self.symbols.lane_part(no)
        address = self.graph.blocks[place.block][place.at].address
        part = ZERO if varies else self.symbols.lane_part(yes)
        rest = Symbol(
            kind="choice", varies=varies and not warp_wide(place.name), block=place.block, address=address, reads=reads
        )
        return part.plus(self.symbols.new(f"{address:x} {place.name} or not", rest))


def _symbol_of(place: RegisterPlace) -> str:
    return f"join {place.block} {place.name}"
