"""The symbols of sums over the lanes of a warp: what each stands for, products of them, numbers for each lane."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from msgspec import Struct

from gpuprof.sass.formulas.places import RegisterPlace
from gpuprof.sass.formulas.sums import Product, Sum
from gpuprof.sass.lanes.values import LANES, WORD, LaneValue, value, zero_bits

Vector = tuple[int, ...]
SymbolKind = Literal[
    "lanes", "constant", "launch", "start", "loaded", "shared", "join", "choice", "result", "product", "beyond"
]
"""`lanes`: a number for each lane; `choice`: written under a predicate; `launch`: of the launch, such as
blockIdx; `beyond`: what was not followed, for there is too much of it."""
MOST_TERMS = 48
_MOST_FACTORS = 4


class Symbol(Struct, frozen=True, kw_only=True):
    """What a term of a sum stands for. `varies`: lanes of a warp may hold different values.

    `reads` are the registers that it follows from, `factors` the symbols of a product.
    """

    kind: SymbolKind
    varies: bool
    block: int = -1
    address: int | None = None
    reads: tuple[RegisterPlace, ...] = ()
    vector: Vector | None = None
    factors: tuple[str, ...] = ()


class Symbols:
    """The symbols of one kernel by their names."""

    def __init__(self) -> None:
        self.of: dict[str, Symbol] = {}
        self.changed: set[str] = set()
        """Those of which it turned out to be otherwise whether they differ between lanes."""
        self._numbers: dict[Hashable, str] = {}

    def new(self, name: str, symbol: Symbol) -> Sum:
        """Return a symbol as a sum, and note what it stands for."""
        known = self.of.get(name)
        if known is not None and known.varies != symbol.varies:
            self.changed.add(name)
        self.of[name] = symbol
        return Sum(0, ((name, 1),))

    def varies(self, held: Sum) -> bool:
        """Tell whether lanes of a warp may hold different values."""
        return any(self.of[symbol].varies for symbol, _ in held.terms)

    def lane_part(self, held: Sum) -> Sum:
        """Return the terms that differ between lanes."""
        return Sum(0, tuple((symbol, factor) for symbol, factor in held.terms if self.of[symbol].varies))

    def vector(self, lanes: Vector) -> Sum:
        """Return a number for each lane: the first lane's, and a symbol for how far the others are from it."""
        first = lanes[0]
        apart = tuple((lane - first) % WORD for lane in lanes)
        if not any(apart):
            return Sum(first % WORD)
        symbol = self._numbered("lanes", apart)
        if symbol not in self.of:
            self.of[symbol] = Symbol(kind="lanes", varies=True, vector=apart)
        return Sum(first % WORD, ((symbol, 1),))

    def _numbered(self, kind: str, of: Hashable) -> str:
        """Return a short name for what would have a long one."""
        return self._numbers.setdefault((kind, of), f"{kind} {len(self._numbers)}")

    def lanes_of(self, held: Sum) -> LaneValue | None:
        """Return a sum as the lanes' values but for one unknown that all share."""
        lanes, align = [held.number] * LANES, 32
        for symbol, factor in held.terms:
            vector = self.of[symbol].vector
            if vector is not None:
                lanes = [lane + factor * apart for lane, apart in zip(lanes, vector, strict=True)]
            elif self.of[symbol].varies:
                return None
            else:
                align = min(align, zero_bits(factor))
        return value(lanes, align)

    def product(self, block: int) -> Product:
        """Return what multiplies two sums term by term."""

        def product(first: Sum, second: Sum) -> Sum:
            if len(first.terms) * len(second.terms) > MOST_TERMS:
                symbol = self._numbered("product", (block, first, second))
                return self.new(symbol, Symbol(kind="result", varies=True, block=block))
            total = Sum(first.number * second.number % WORD)
            total = total.plus(Sum(0, first.terms), second.number).plus(Sum(0, second.terms), first.number)
            for symbol, factor in first.terms:
                for other, times in second.terms:
                    total = total.plus(self._times(symbol, other, block), factor * times)
            return total

        return product

    def _times(self, first: str, second: str, block: int) -> Sum:
        self.note_constants(first, second)
        factors = tuple(sorted((*self.factors(first), *self.factors(second))))
        varies = any(self.of[factor].varies for factor in factors)
        if len(factors) > _MOST_FACTORS:
            symbol = self._numbered("power", (block, factors))
            return self.new(symbol, Symbol(kind="result", varies=varies, block=block))
        last = max((self.of[factor].block for factor in factors), default=block)
        return self.new("*".join(factors), Symbol(kind="product", varies=varies, factors=factors, block=last))

    def factors(self, symbol: str) -> tuple[str, ...]:
        """Return the symbols that one is a product of; itself, if it is none."""
        return self.of[symbol].factors or (symbol,)

    def note_constants(self, *symbols: str) -> None:
        """Note what words of constant bank 0 and registers of the beginning stand for."""
        for symbol in symbols:
            if symbol not in self.of:
                self.of[symbol] = Symbol(kind="constant" if symbol.startswith("c[") else "start", varies=False)


def warp_wide(name: str) -> bool:
    """Tell whether a register is one for the whole warp."""
    return name.startswith("U")
