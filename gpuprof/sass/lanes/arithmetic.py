"""Arithmetic on what is known of registers in the lanes of a warp, of one word and of two."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from struct import Struct
from typing import NamedTuple

from gpuprof.sass.lanes.values import (
    LANES,
    UNIFORM,
    WORD,
    WORD_BITS,
    LaneValue,
    same,
    signed,
    value,
    zero_bits,
)

WIDE_BITS = 64
_WIDE = 1 << WIDE_BITS
_GUESSES = tuple(product((0, -1), repeat=3))
_WORDS = Struct(f"<{LANES}I")
_LANES_MASK = (1 << WORD_BITS * LANES) - 1
_ONES = _LANES_MASK // (WORD - 1)


class Wide(NamedTuple):
    """Two words of each lane: lanes[i] + u · 2^align, modulo 2^64, `align` 64 where nothing is unknown."""

    lanes: tuple[int, ...]
    align: int


def add(*terms: LaneValue | None) -> LaneValue | None:
    """Return the sum."""
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return None
    align = min(term.align for term in known)
    return value(map(sum, zip(*(term.lanes for term in known), strict=True)), align, high=any(t.high for t in known))


def carry(*terms: tuple[LaneValue | None, bool]) -> LaneValue | None:
    """Return what a sum carries over to the next word; each term may be marked as subtracted."""
    known = [(term, negative) for term, negative in terms if term is not None]
    if len(known) < len(terms) or any(term.high for term, _ in known):
        return None
    # What is exact is subtracted as the hardware does: 2^32 - x, also where x is 0.
    columns = [[w or WORD for w in t.lanes] if negative and t.exact else t.lanes for t, negative in known]
    sums = [sum(column) for column in zip(*columns, strict=True)]
    if all(term.exact for term, _ in known):
        return value(total // WORD for total in sums)
    if all(term.uniform for term, _ in known):
        return UNIFORM
    return LaneValue(tuple((total - signed(total % WORD)) // WORD for total in sums), 0, high=True)


def negative(term: LaneValue | None) -> LaneValue | None:
    """Return -x."""
    return term and value((-word for word in term.lanes), term.align, high=term.high)


def inverse(term: LaneValue | None) -> LaneValue | None:
    """Return ~x."""
    return term and value((~word for word in term.lanes), term.align, high=term.high)


def multiply(factor: LaneValue | None, second: LaneValue | None) -> LaneValue | None:
    """Return the lower word of the product."""
    if factor is None or second is None:
        return None
    product = _product(factor.lanes, factor.align, second.lanes, second.align, WORD_BITS)
    return product and value(product.lanes, product.align, high=factor.high or second.high)


def multiply_wide(factor: LaneValue | None, second: LaneValue | None, *, sign: bool) -> Wide | None:
    """Return both words of the product."""
    if factor is None or second is None or factor.high or second.high:
        return None
    lanes = [[signed(word) for word in term.lanes] if sign else term.lanes for term in (factor, second)]
    aligns = [WIDE_BITS if term.exact else term.align for term in (factor, second)]
    return _product(lanes[0], aligns[0], lanes[1], aligns[1], WIDE_BITS)


def _product(first: Sequence[int], align: int, second: Sequence[int], second_align: int, width: int) -> Wide | None:
    """Multiply (a + u · 2^k) and (b + v · 2^m): what is unknown, such as a · v · 2^m, must be the same for all."""
    unknown, second_unknown = align < width, second_align < width
    if (unknown and not same(second)) or (second_unknown and not same(first)):
        return None
    zeros = [width]
    zeros += [align + zero_bits(second[0])] if unknown else []
    zeros += [second_align + zero_bits(first[0])] if second_unknown else []
    zeros += [align + second_align] if unknown and second_unknown else []
    return Wide(tuple(a * b for a, b in zip(first, second, strict=True)), min(zeros))


# Two words


def pair(low: LaneValue | None, high: LaneValue | None) -> Wide | None:
    """Put two words together."""
    if low is None or high is None or low.high or (low.exact and high.high):
        return None
    align = low.align if not low.exact else WORD_BITS + high.align
    return Wide(tuple(_near((h << WORD_BITS) + w) for w, h in zip(low.lanes, high.lanes, strict=True)), align)


def halves(whole: Wide | None) -> tuple[LaneValue | None, LaneValue | None]:
    """Take two words apart."""
    if whole is None:
        return None, None
    lanes = [_near(lane) for lane in whole.lanes]
    base = min(lanes) >> whole.align << whole.align if whole.align < WIDE_BITS else 0
    lanes = [lane - base for lane in lanes]
    lows, highs = tuple(lane % WORD for lane in lanes), tuple(lane // WORD % WORD for lane in lanes)
    if whole.align >= WORD_BITS:
        return LaneValue(lows), value(highs, whole.align - WORD_BITS)
    return LaneValue(lows, whole.align), LaneValue(highs, 0, high=not same(lanes))


def upper(whole: Wide | None) -> LaneValue | None:
    """Return the upper word alone: the lower one is computed by another instruction."""
    if whole is None:
        return None
    align = max(0, whole.align - WORD_BITS)
    high = whole.align < WORD_BITS and not same(whole.lanes)
    return value((lane >> WORD_BITS for lane in whole.lanes), align, high=high)


def add_wide(*terms: Wide | None) -> Wide | None:
    """Return the sum."""
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return None
    lanes = map(sum, zip(*(term.lanes for term in known), strict=True))
    return Wide(tuple(lanes), min(term.align for term in known))


def carry_wide(*terms: Wide | None) -> LaneValue | None:
    """Return what a sum of unsigned numbers carries over to the next word, if they are known."""
    known = [term for term in terms if term is not None and term.align == WIDE_BITS]
    if len(known) < len(terms):
        return None
    columns = zip(*(term.lanes for term in known), strict=True)
    return value(sum(lane % _WIDE for lane in column) // _WIDE for column in columns)


def negative_wide(term: Wide | None) -> Wide | None:
    """Return -x."""
    return term and Wide(tuple(-lane for lane in term.lanes), term.align)


def extended(word: LaneValue | None, *, sign: bool) -> Wide | None:
    """Make two words of one, by its sign or by zeros."""
    if word is None or word.high:
        return None
    return Wide(tuple(map(signed, word.lanes)) if sign else word.lanes, WIDE_BITS if word.exact else word.align)


def _near(number: int) -> int:
    """Read 64 bits as a signed number."""
    return (number + _WIDE // 2) % _WIDE - _WIDE // 2


# Bits


def shift_left(whole: Wide | None, by: int) -> Wide | None:
    """Shift two words to the left."""
    return whole and Wide(tuple(lane << by for lane in whole.lanes), min(WIDE_BITS, whole.align + by))


def shift_right(word: LaneValue | None, by: int, *, sign: bool) -> LaneValue | None:
    """Shift a word to the right: known where what is shifted out is, so that the lanes shift as the whole does."""
    if word is None or word.high:
        return None
    if word.exact:
        return value((signed(w) if sign else w) >> by for w in word.lanes)
    if by <= word.align:
        return value((w >> by for w in word.lanes), word.align - by)
    return UNIFORM if word.uniform or max(word.lanes) < 1 << word.align else None


def shift_right_wide(whole: Wide | None, by: int) -> LaneValue | None:
    """Return the lower word of two words that are shifted to the right."""
    if whole is None:
        return None
    if by <= whole.align:
        return value((lane >> by for lane in whole.lanes), min(WORD_BITS, whole.align - by))
    return UNIFORM if same(whole.lanes) else None


def logic(table: int, sources: Sequence[LaneValue | None]) -> LaneValue | None:
    """Apply LOP3's table of truth to three words. Bits below what is unknown are known, and so are masked bits."""
    known = [source for source in sources if source is not None and not source.high]
    if len(known) < len(sources):
        return None
    if all(source.exact for source in known):
        return LaneValue(_unpacked(_truth(table, [_packed(source.lanes) for source in known])))
    align = min(source.align for source in known)
    packed = [(_packed(source.lanes), _every_lane((1 << source.align) - 1)) for source in known]
    tries = [_tried(table, packed, unknown) for unknown in _GUESSES]
    above = _every_lane(WORD - 1 >> align << align)
    if all((guess ^ tries[0]) & above == 0 for guess in tries):
        return LaneValue(_unpacked(tries[0]))
    within = all(source.exact or max(source.lanes) < 1 << source.align for source in known)
    if within and all(_alike(guess & above) for guess in tries):
        return value(_unpacked(tries[0] & _every_lane((1 << align) - 1)), align)
    return None


def _tried(table: int, sources: Sequence[tuple[int, int]], unknown: Sequence[int]) -> int:
    """Apply a table of truth in all lanes, with given bits for those that are unknown: outside the second of each."""
    return _truth(
        table, [word & mask | guess & ~mask & _LANES_MASK for (word, mask), guess in zip(sources, unknown, strict=True)]
    )


def _packed(lanes: Sequence[int]) -> int:
    """Put the words of all lanes one behind the other."""
    return int.from_bytes(_WORDS.pack(*lanes), "little")


def _unpacked(packed: int) -> tuple[int, ...]:
    return _WORDS.unpack(packed.to_bytes(_WORDS.size, "little"))


def _every_lane(word: int) -> int:
    """Give all lanes the same word."""
    return word * _ONES


def _truth(table: int, operands: Sequence[int]) -> int:
    """Put words together bit by bit: bit 4a + 2b + c of the table is the result for the bits a, b and c."""
    first, second, third = operands
    result = 0
    for index in range(8):
        if table >> index & 1:
            a = first if index & 4 else ~first
            two = second if index & 2 else ~second
            result |= a & two & (third if index & 1 else ~third)
    return result & _LANES_MASK


def _alike(packed: int) -> bool:
    """Tell whether all lanes hold the same word."""
    return packed == _every_lane(packed & WORD - 1)
