"""Follows addresses back to what they are made of: numbers that differ between lanes, arguments, loaded values."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from gpuprof.sass.flow.branches import Branches
from gpuprof.sass.flow.graph import ControlFlowGraph
from gpuprof.sass.formulas.places import RegisterPlace, RegisterPlaces
from gpuprof.sass.formulas.results import LaneResults, Written
from gpuprof.sass.formulas.sums import ZERO, Sum, SumReader
from gpuprof.sass.formulas.symbols import Symbol, Symbols, warp_wide
from gpuprof.sass.operands import named

_MOST_STEPS = 60_000
"""Values of registers that are worked out, and ways that are compared, in one kernel; the rest stays unknown."""
_MOST_ROUNDS = 16
"""Each learns what holds where ways meet that lead on from those that the one before has learnt."""


class LaneSums:
    """The registers of one kernel in one warp, as sums of symbols; each is followed when it is asked for.

    `block` None: rows of threads are taken to fill warps. `constants` are known bytes of constant bank 0. `joins` are
    the sums that ways bring to where they meet, by the symbol of that.
    """

    def __init__(
        self, graph: ControlFlowGraph, block: tuple[int, int, int] | None, constants: Mapping[int, int]
    ) -> None:
        self.graph, self._constants = graph, constants
        self.symbols = Symbols()
        self.branches = Branches(graph)
        self.joins: dict[str, tuple[Sum, ...]] = {}
        self._places = RegisterPlaces(graph, self.branches)
        self._results = LaneResults(self.symbols, block, constants)
        self._held: dict[RegisterPlace, Sum] = {}
        """In the order in which they were worked out: each stands behind those that it follows from."""
        self._pending: list[RegisterPlace] = []
        self._unsettled: dict[RegisterPlace, str] = {}
        self._settled: dict[str, Sum] = {}
        self._learnt: dict[RegisterPlace, Sum] = {}
        self._deciding: dict[int, tuple[RegisterPlace, ...] | None] = {}
        self._left = _MOST_STEPS
        self._learning = True

    def addresses(self, asked: Sequence[tuple[int, int, str]]) -> list[Sum | None]:
        """Return the lower words of addresses, each by its block, its instruction and the operand.

        None for forms that are no sums, and in code that is not reached.
        """
        reached = [(block, index, operand) for block, index, operand in asked if block in self.branches.reached]
        for block, index, operand in reached:
            for name in named(operand):
                self._follow(self.read_by(block, index, name))
        for _ in range(_MOST_ROUNDS):
            changed = self._learn()
            self._learning = bool(changed)
            if not changed:
                break
            self._renew(changed)
        return [self._address(*request) for request in asked]

    def _address(self, block: int, index: int, operand: str) -> Sum | None:
        if block not in self.branches.reached:
            return None
        names = {name: self._follow(self.read_by(block, index, name)) for name in named(operand)}
        return SumReader(names, self._constants).address(operand)

    @property
    def cut_short(self) -> bool:
        """Tell whether more might be known if more values were followed."""
        return self._learning or self._left <= 0

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
        return self._places.read(block, index, name, predicate)

    # Following

    def _follow(self, place: RegisterPlace) -> Sum:
        """Return what a register holds; each that it follows from is worked out first."""
        held, needs = self._held, self._places.needs
        waiting = [place] if place not in held else []
        while waiting:
            top = waiting[-1]
            missing = [need for need in needs(top) if need not in held] if top not in held and self._left > 0 else ()
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if top not in held:
                held[top] = self._work_out(top)
        return held[place]

    def _work_out(self, place: RegisterPlace) -> Sum:
        self._left -= 1
        if self._left < 0:
            return self.symbols.new(f"left {place}", Symbol(kind="beyond", varies=True, block=place.block))
        if place.at < 0:
            return self._at_beginning(place)
        if not place.bare:
            return self._choice(place)
        needs = self._places.needs(place)
        reads = {need.name: self._held[need] for need in needs}
        instruction = self.graph.blocks[place.block][place.at]
        return self._results.result(Written(place=place, instruction=instruction, needs=needs, reads=reads))

    def _choice(self, place: RegisterPlace) -> Sum:
        reads = self._places.needs(place)
        yes, no, guard = (self._held[need] for need in reads)
        if yes == no:
            return yes
        varies = self.symbols.varies(guard) or self.symbols.lane_part(yes) != self.symbols.lane_part(no)
        address = self.graph.blocks[place.block][place.at].address
        part = ZERO if varies else self.symbols.lane_part(yes)
        rest = Symbol(
            kind="choice", varies=varies and not warp_wide(place.name), block=place.block, address=address, reads=reads
        )
        return part.plus(self.symbols.new(f"{address:x} {place.name} or not", rest))

    # Beginnings and joins

    def _at_beginning(self, place: RegisterPlace) -> Sum:
        if self._places.ways(place):
            self._pending.append(place)
            varies = not warp_wide(place.name)
            return self.symbols.new(_symbol_of(place), Symbol(kind="join", varies=varies, block=place.block))
        first = place.block in self.graph.entries and len(self.graph.entries) == 1
        alone = first and not self.branches.predecessors[place.block]
        return self.symbols.new(
            f"start {place.block} {place.name}",
            Symbol(kind="start", varies=not (alone or warp_wide(place.name) or place.name == "R1"), block=place.block),
        )

    def _learn(self) -> set[RegisterPlace]:
        """Settle what joins hold; return those of which more is known now than a symbol."""
        changed: set[RegisterPlace] = set()
        again = True
        while again and self._left > 0:
            while self._pending and self._left > 0:
                place = self._pending.pop()
                self._unsettled[place] = _symbol_of(place)
                self._left -= len(self._places.ways(place))
                for source in self._places.ways(place):
                    self._follow(source)
            for place, symbol in self._unsettled.items():
                self.joins[symbol] = tuple(self._follow(source) for source in self._places.ways(place))
            changed = self._settle()
            again = bool(self._pending) and not changed
        return changed

    def _settle(self) -> set[RegisterPlace]:
        """Go through joins that are not settled as yet, and again those that others lead to; return those that are."""
        settled: set[RegisterPlace] = set()
        behind: dict[str, list[RegisterPlace]] = {}
        for place, joining in self._unsettled.items():
            for factor in self._factors(self.joins[joining]):
                behind.setdefault(factor, []).append(place)
        waiting = deque(self._unsettled)
        while waiting and self._left > 0:
            place = waiting.popleft()
            if place in settled:
                continue
            symbol = self._unsettled[place]
            self._left -= len(self.joins[symbol])
            self.joins[symbol] = tuple(map(self._resolved, self.joins[symbol]))
            held = self._meeting(place, symbol)
            if held is None:
                continue
            self._learnt[place] = self._settled[symbol] = held
            settled.add(place)
            del self._unsettled[place]
            followers = behind.pop(symbol, [])
            waiting += followers
            for factor in self._factors([held]):
                behind.setdefault(factor, []).extend(followers)
        return settled

    def _factors(self, ways: Iterable[Sum]) -> set[str]:
        return {factor for held in ways for symbol, _ in held.terms for factor in self.symbols.factors(symbol)}

    def _renew(self, changed: set[RegisterPlace]) -> None:
        """Work out again what follows from joins that were settled."""
        for place, before in self._held.items():
            if self._left <= 0:
                break
            if place in self._learnt:
                held = self._resolved(self._learnt[place])
            elif changed.isdisjoint(self._places.needs(place)):
                continue
            else:
                held = self._work_out(place)
            if held != before or any(symbol in self.symbols.changed for symbol, _ in held.terms):
                self._held[place] = held
                changed.add(place)

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
        return not self._settled.keys().isdisjoint(self.symbols.factors(symbol))

    def _replaced(self, symbol: str) -> Sum:
        factors = [self._settled.get(factor, Sum(0, ((factor, 1),))) for factor in self.symbols.factors(symbol)]
        return reduce(self.symbols.product(self.symbols.of[symbol].block), factors)

    def _meeting(self, place: RegisterPlace, symbol: str) -> Sum | None:
        """Return a join as what differs between lanes, the same on all ways, and one symbol for the rest."""
        ways = [held for held in self.joins[symbol] if held != Sum(0, ((symbol, 1),))]
        if not ways or warp_wide(place.name):
            return None
        if len(set(ways)) == 1 and all(term != symbol for term, _ in ways[0].terms):
            return ways[0]
        if place.block not in self.graph.loops and self.diverging(place.block):
            return None
        parts = {self.symbols.lane_part(held) for held in ways if (symbol, 1) not in held.terms}
        steps = [held.plus(Sum(0, ((symbol, 1),)), -1) for held in ways if (symbol, 1) in held.terms]
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
            places = [self._places.read(*guard) for guard in guards or ()]
            self._deciding[block] = tuple(dict.fromkeys(places)) if guards is not None else None
        return self._deciding[block]


def _symbol_of(place: RegisterPlace) -> str:
    return f"join {place.block} {place.name}"
