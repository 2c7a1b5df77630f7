"""Abstract values of registers: affine expressions of named unknowns with a coefficient for each lane of a warp."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from gpuprof.sass.dataflow.reaching_definitions import Definition
from gpuprof.units import WARP_THREADS

LANES = WARP_THREADS
WORD_BITS = 32
WORD = 1 << WORD_BITS
_MASK = WORD - 1
MOST_TERMS = 48
_MOST_FACTORS = 4

Lanes = int | tuple[int, ...]
"""A word of each lane; an integer if it is the same in all."""


class LinearExpr(NamedTuple):
    """The word of each lane: `lanes`, plus multiples of symbols, plus an unnamed multiple of 2^`align`.

    The unnamed multiple is the same in all lanes. Arithmetic is modulo 2^32. A predicate is 0 or 1. Unknown parts are
    assumed not to wrap around between one lane and the next.
    """

    lanes: Lanes
    terms: tuple[tuple[str, Lanes], ...] = ()
    align: int = WORD_BITS

    @property
    def exact(self) -> bool:
        """Return whether the value of each lane is known."""
        return not self.terms and self.align == WORD_BITS

    def plus(self, other: LinearExpr, times: int = 1) -> LinearExpr:
        """Add a multiple of another expression."""
        lanes = _sum(self.lanes, other.lanes, times)
        align = min(self.align, other.align)
        if not other.terms or (times == 1 and not self.terms):
            return LinearExpr(lanes, self.terms or other.terms, align)
        terms = dict(self.terms)
        for symbol, factor in other.terms:
            terms[symbol] = _sum(terms.get(symbol, 0), factor, times)
        return LinearExpr(lanes, tuple(sorted([term for term in terms.items() if term[1] != 0])), align)


def _sum(lanes: Lanes, other: Lanes, times: int) -> Lanes:
    if isinstance(other, int):
        by = other * times & _MASK
        if isinstance(lanes, int):
            return lanes + by & _MASK
        return tuple([lane + by & _MASK for lane in lanes]) if by else lanes
    pairs = zip(spread(lanes), other, strict=True)
    return folded([lane + more * times & _MASK for lane, more in pairs])


ZERO, ONE = LinearExpr(0), LinearExpr(1)
UNIFORM = LinearExpr(0, (), 0)
"""An unknown value that is the same in all lanes."""


def per_lane(function: Callable[..., int], *operands: Lanes) -> Lanes:
    """Apply a function to the words of each lane, modulo 2^32."""
    for operand in operands:
        if not isinstance(operand, int):
            columns = [(each,) * LANES if isinstance(each, int) else each for each in operands]
            return folded([function(*words) & _MASK for words in zip(*columns, strict=True)])
    return function(*operands) & _MASK


def folded(words: Sequence[int]) -> Lanes:
    """Return the words of all lanes; one integer if they are equal."""
    return words[0] if words.count(words[0]) == LANES else tuple(words)


def spread(lanes: Lanes) -> tuple[int, ...]:
    """Return the word of each lane."""
    return (lanes,) * LANES if isinstance(lanes, int) else lanes


def signed(word: int) -> int:
    """Return a word as a signed number."""
    return word - WORD if word >= WORD // 2 else word


def apart(lanes: Lanes) -> tuple[int, ...]:
    """Return the distance of each lane from the first, as signed numbers."""
    words = spread(lanes)
    half, first = WORD // 2, words[0]
    return tuple([(word - first + half) % WORD - half for word in words])


def zero_bits(number: int) -> int:
    """Return the number of trailing zero bits; 32 for 0."""
    return (number & -number).bit_length() - 1 if number else WORD_BITS


def exactly(function: Callable[..., int], *sources: LinearExpr | None) -> LinearExpr | None:
    """Apply a function lane by lane if all sources are exact; equal sources give equal results."""
    known = [source for source in sources if source is not None]
    if len(known) < len(sources):
        return None
    if all(source.exact for source in known):
        return LinearExpr(per_lane(function, *(source.lanes for source in known)))
    return uniform_of(known)


def uniform_of(sources: Iterable[LinearExpr | None]) -> LinearExpr | None:
    """Return the result of an unknown function of these views: uniform if all are, else None."""
    return UNIFORM if all(source is not None and isinstance(source.lanes, int) for source in sources) else None


def number_of(view: LinearExpr | None) -> int | None:
    """Return a known number that is the same in all lanes."""
    return view.lanes if view is not None and view.exact and isinstance(view.lanes, int) else None


def lane_mask(flag: LinearExpr | None) -> int | None:
    """Return the mask of lanes in which a predicate is true; None if it is not exact."""
    if flag is None or not flag.exact:
        return None
    if isinstance(flag.lanes, int):
        return _MASK if flag.lanes else 0
    return sum(1 << lane for lane, word in enumerate(flag.lanes) if word)


def by_mask(mask: int, yes: Lanes, no: Lanes) -> Lanes:
    """Return `yes` in the lanes of a mask and `no` in the others."""
    pairs = enumerate(zip(spread(yes), spread(no), strict=True))
    return folded([word if mask >> lane & 1 else other for lane, (word, other) in pairs])


SymbolKind = Literal["constant", "launch", "lanes", "start", "loaded", "shared", "join", "choice", "result", "product"]
"""`lanes`: threadIdx that is not known; `choice`: written under a predicate; `launch`: such as blockIdx."""


class Symbol(Struct, frozen=True, kw_only=True):
    """An unknown in an expression. `varies`: its value may differ between lanes of a warp.

    `place` is the definition of which it is the unknown part; `address` and `opcode` are those of the instruction.
    `reads` are the definitions that it is computed from, `factors` the symbols of a product. Its value is a multiple of
    2^`align`.
    """

    kind: SymbolKind
    varies: bool = False
    block: int = -1
    address: int | None = None
    opcode: str = ""
    reads: tuple[Definition, ...] = ()
    factors: tuple[str, ...] = ()
    align: int = 0
    place: Definition | None = None


LANE = "lane"
"""The symbol of the lane index, a leaf of values whose lanes differ by known numbers."""


class Symbols:
    """The symbols of one kernel by their names. A symbol that is found to vary gets another name."""

    def __init__(self) -> None:
        self.by_name = {LANE: Symbol(kind="lanes", varies=True)}
        self._views: dict[LinearExpr, LinearExpr | None] = {}

    def new(self, name: str, symbol: Symbol, times: int = 1) -> LinearExpr:
        """Return a multiple of a symbol."""
        self.by_name[name] = symbol
        return LinearExpr(0, ((name, times),))

    def varies(self, value: LinearExpr) -> bool:
        """Return whether the value may differ between lanes of a warp."""
        return not isinstance(value.lanes, int) or any(
            self.by_name[symbol].varies or not isinstance(factor, int) for symbol, factor in value.terms
        )

    def unknown_align(self, value: LinearExpr) -> int | None:
        """Return the power of two that divides all symbols of an expression; None if lanes differ by them."""
        align = value.align
        for name, factor in value.terms:
            symbol = self.by_name[name]
            if symbol.varies or not isinstance(factor, int):
                return None
            align = min(align, zero_bits(factor) + symbol.align)
        return align

    def lanes_of(self, value: LinearExpr | None) -> LinearExpr | None:
        """Return the view of an expression without symbols; None if the differences between lanes are not known."""
        if value is None:
            return None
        if value not in self._views:
            align = self.unknown_align(value)
            self._views[value] = LinearExpr(reduced(value.lanes, align), (), align) if align is not None else None
        return self._views[value]

    def product(self, first: LinearExpr | None, second: LinearExpr | None) -> LinearExpr | None:
        """Multiply two expressions term by term; None if one is not known, or if that gives too many terms."""
        if first is None or second is None:
            return None
        for one, other in ((first, second), (second, first)):
            if not other.terms and isinstance(other.lanes, int):
                return ZERO.plus(one, other.lanes)
        if len(first.terms) * len(second.terms) > MOST_TERMS:
            return None
        total = LinearExpr(per_lane(operator.mul, first.lanes, second.lanes))
        for one, other in ((first, second), (second, first)):
            scaled = [(name, per_lane(operator.mul, factor, other.lanes)) for name, factor in one.terms]
            total = total.plus(LinearExpr(0, tuple(term for term in scaled if term[1] != 0)))
        for name, factor in first.terms:
            for other_name, times in second.terms:
                product = self._times(name, other_name)
                coefficient = per_lane(operator.mul, factor, times)
                if product is None:
                    return None
                total = total.plus(LinearExpr(0, ((product, coefficient),) if coefficient != 0 else ()))
        return total

    def _times(self, first: str, second: str) -> str | None:
        factors = tuple(sorted((*self.factors(first), *self.factors(second))))
        if len(factors) > _MOST_FACTORS:
            return None
        of = [self.by_name[factor] for factor in factors]
        name = "*".join(factors)
        self.by_name[name] = Symbol(
            kind="product",
            varies=any(symbol.varies for symbol in of),
            factors=factors,
            block=max(symbol.block for symbol in of),
            align=min(WORD_BITS, sum(symbol.align for symbol in of)),
        )
        return name

    def factors(self, name: str) -> tuple[str, ...]:
        """Return the symbols that one is a product of; itself if it is none."""
        return self.by_name[name].factors or (name,)

    def choose(self, flag: LinearExpr | None, yes: LinearExpr, no: LinearExpr, active: int) -> LinearExpr | None:
        """Return `yes` in the lanes in which a predicate is true, `no` in the others; `active` has a bit for each."""
        if yes == no:
            return yes
        rest = no.plus(yes, -1)
        view = self.lanes_of(flag)
        mask = lane_mask(view)
        if mask is not None and not (active & mask and active & ~mask):
            return no if active & ~mask else yes
        if mask is not None:
            return yes.plus(LinearExpr(by_mask(mask, 0, rest.lanes))) if rest.exact else None
        align = self.unknown_align(rest)
        if view is None or not isinstance(view.lanes, int) or align is None or not isinstance(rest.lanes, int):
            return None
        return yes._replace(align=min(align, zero_bits(rest.lanes)))


def reduced(lanes: Lanes, align: int) -> Lanes:
    """Return lanes in normal form: the shared unknown multiple of 2^`align` absorbs what it can."""
    if align >= WORD_BITS:
        return lanes
    if isinstance(lanes, int):
        return lanes % (1 << align)
    near = [signed(word) for word in lanes]
    base = min(near) >> align << align
    return tuple([word - base & _MASK for word in near])
