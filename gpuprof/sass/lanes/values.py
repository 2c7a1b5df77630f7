"""What is known of a register in the 32 lanes of a warp: each lane's value, but for one unknown that all of them share.

Lane i holds lanes[i] + u · 2^align, modulo 2^32, where u is one unknown for all lanes. `align` 32 leaves nothing
unknown, `align` 0 tells only the differences between lanes: enough for what an access costs. Where not even these are
known, there is no LaneValue but None. Unknown parts are taken not to wrap around between one lane and the next, as
indices do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gpuprof.units import WARP_THREADS

LANES = WARP_THREADS
WORD_BITS = 32
WORD = 1 << WORD_BITS
_MASK, _HALF = WORD - 1, WORD // 2


class LaneValue(NamedTuple):
    """A word of each lane. A predicate is a LaneValue, too: 0 or 1.

    `high`: the upper word of an address whose lower word is only partly known, so that what it takes over from the
    lower word is unknown: it is true only together with it.
    """

    lanes: tuple[int, ...]
    align: int = WORD_BITS
    high: bool = False

    @property
    def exact(self) -> bool:
        """Tell whether the value of each lane is known."""
        return self.align == WORD_BITS

    @property
    def uniform(self) -> bool:
        """Tell whether all lanes surely hold the same."""
        return not self.high and same(self.lanes)


def value(lanes: Iterable[int], align: int = WORD_BITS, *, high: bool = False) -> LaneValue:
    """Return a value in its normal form: what a shared unknown can take over is taken out of the lanes."""
    if align >= WORD_BITS:
        return LaneValue(tuple([word & _MASK for word in lanes]))
    near = [(word + _HALF & _MASK) - _HALF for word in lanes]
    base = min(near) >> align << align
    return LaneValue(tuple([word - base & _MASK for word in near]), align, high)


def constant(number: int) -> LaneValue:
    """Return a number that all lanes hold."""
    return LaneValue((number % WORD,) * LANES)


UNIFORM = LaneValue((0,) * LANES, 0)
"""The same in all lanes, and no more is known."""
ZERO = constant(0)
ONE = constant(1)


def signed(word: int) -> int:
    """Read a word as a signed number."""
    return word - WORD if word >= WORD // 2 else word


def uniform_of(sources: Iterable[LaneValue | None]) -> LaneValue | None:
    """Return what any function of these gives, if nothing is known of the function: the same from the same."""
    return UNIFORM if all(source is not None and source.uniform for source in sources) else None


def exactly(function: Callable[..., int], *sources: LaneValue | None) -> LaneValue | None:
    """Apply a function of words lane by lane where they are known; else the same gives the same."""
    known = [source for source in sources if source is not None and source.exact]
    if len(known) < len(sources):
        return uniform_of(sources)
    if all(source.uniform for source in known):
        return constant(function(*(source.lanes[0] for source in known)))
    return value(map(function, *(source.lanes for source in known)))


def join(first: LaneValue | None, second: LaneValue | None) -> LaneValue | None:
    """Return what holds for both of two values that all lanes together may have."""
    if first is second or first is None or second is None:
        return first if second is not None else None
    if first == second:
        return first
    difference = _difference(first.lanes, second.lanes)
    if difference is None:
        return None
    align = min(first.align, second.align, zero_bits(difference))
    return value(first.lanes, align, high=first.high or second.high)


def _difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    """Return by what all lanes differ, if it is the same for all."""
    difference = (first[0] - second[0]) % WORD
    if (first[-1] - second[-1]) % WORD != difference:
        return None
    return difference if all((a - b) % WORD == difference for a, b in zip(first, second, strict=True)) else None


def choose(flag: LaneValue | None, yes: LaneValue | None, no: LaneValue | None, active: int) -> LaneValue | None:
    """Return `yes` in the lanes where a predicate holds, `no` in the others; `active` has a bit for each lane."""
    if flag is not None and flag.exact:
        return mix([(yes, active & bits(flag)), (no, active & ~bits(flag))])
    if flag is not None and flag.uniform:
        return join(yes, no)
    return mix([(yes, active), (no, active)])


def mix(parts: Sequence[tuple[LaneValue | None, int]]) -> LaneValue | None:
    """Return a value that comes from different places in different lanes; each place has a bit for each lane."""
    taken = [(part, where) for part, where in parts if where] or list(parts[:1])
    first, lanes = taken[0]
    if len(taken) == 1 or first is None:
        return first
    mixed = list(first.lanes)
    for part, where in taken:
        if part is None or not part.exact or not first.exact:
            return None
        if any(mixed[lane] != part.lanes[lane] for lane in _each(lanes & where)):
            return None
        for lane in _each(where & ~lanes):
            mixed[lane] = part.lanes[lane]
        lanes |= where
    return value(mixed)


def bits(flag: LaneValue) -> int:
    """Return a predicate as an integer with a bit for each lane."""
    return sum(1 << lane for lane, word in enumerate(flag.lanes) if word)


def _each(where: int) -> list[int]:
    return [lane for lane in range(LANES) if where >> lane & 1]


def same(lanes: Sequence[int]) -> bool:
    """Tell whether all lanes hold the same number."""
    return lanes.count(lanes[0]) == len(lanes)


def zero_bits(number: int) -> int:
    """Return how many of the lowest bits are zero; all of them for 0."""
    return (number & -number).bit_length() - 1 if number else 64
