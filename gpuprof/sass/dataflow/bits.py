"""Shifts and logic of values without symbols (views): the lanes of a word, plus an unknown that all lanes share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from struct import Struct

from gpuprof.sass.dataflow.expressions import (
    LANES,
    UNIFORM,
    WORD,
    WORD_BITS,
    Lanes,
    LinearExpr,
    folded,
    per_lane,
    signed,
    spread,
)

_GUESSES = tuple(product((0, -1), repeat=3))
_WORDS = Struct(f"<{LANES}I")
_LANES_MASK = (1 << WORD_BITS * LANES) - 1
_ONES = _LANES_MASK // (WORD - 1)


def shift_right(word: LinearExpr | None, by: int, *, sign: bool) -> LinearExpr | None:
    """Shift a word to the right if the bits that are shifted out are known."""
    if word is None:
        return None
    if word.exact:
        return LinearExpr(per_lane(lambda lane: (signed(lane) if sign else lane) >> by, word.lanes))
    if by <= word.align:
        return LinearExpr(per_lane(lambda lane: lane >> by, word.lanes), (), word.align - by)
    return UNIFORM if max(spread(word.lanes)) < 1 << word.align or isinstance(word.lanes, int) else None


def shift_right_pair(low: LinearExpr | None, high: LinearExpr | None, by: int) -> LinearExpr | None:
    """Return the lower word of a right shift of two words, if the upper word is uniform or exact."""
    if low is None or high is None:
        return None
    if low.exact and high.exact:
        return LinearExpr(per_lane(lambda a, b: (signed(b) << WORD_BITS | a) >> by, low.lanes, high.lanes))
    if by <= low.align:
        return LinearExpr(per_lane(lambda lane: lane >> by, low.lanes), (), min(WORD_BITS, low.align) - by)
    return UNIFORM if isinstance(low.lanes, int) and isinstance(high.lanes, int) else None


def logic(table: int, sources: Sequence[LinearExpr | None]) -> LinearExpr | None:
    """Apply LOP3's truth table to three words. Bits below the unknown part, and masked bits, are known."""
    known = [source for source in sources if source is not None]
    if len(known) < len(sources):
        return None
    if all(source.exact for source in known):
        return LinearExpr(_unpacked(_truth(table, [_packed(source.lanes) for source in known])))
    align = min(source.align for source in known)
    packed = [(_packed(source.lanes), _packed((1 << source.align) - 1)) for source in known]
    tries = [_tried(table, packed, unknown) for unknown in _GUESSES]
    above = _packed(WORD - 1 >> align << align)
    if all((guess ^ tries[0]) & above == 0 for guess in tries):
        return LinearExpr(_unpacked(tries[0]))
    within = all(source.exact or max(spread(source.lanes)) < 1 << source.align for source in known)
    if within and all(guess & above == _packed(guess & above & WORD - 1) for guess in tries):
        return LinearExpr(_unpacked(tries[0] & _packed((1 << align) - 1)), (), align)
    return None


def _tried(table: int, sources: Sequence[tuple[int, int]], unknown: Sequence[int]) -> int:
    """Apply a truth table in all lanes with guesses for unknown bits, which are outside the mask of each source."""
    return _truth(
        table, [word & mask | guess & ~mask & _LANES_MASK for (word, mask), guess in zip(sources, unknown, strict=True)]
    )


def _packed(lanes: Lanes) -> int:
    """Concatenate the words of all lanes."""
    return lanes * _ONES if isinstance(lanes, int) else int.from_bytes(_WORDS.pack(*lanes), "little")


def _unpacked(packed: int) -> Lanes:
    return folded(_WORDS.unpack(packed.to_bytes(_WORDS.size, "little")))


def _truth(table: int, operands: Sequence[int]) -> int:
    """Combine words bit by bit: bit 4a + 2b + c of the table is the result for the bits a, b and c."""
    first, second, third = operands
    result = 0
    for index in range(8):
        if table >> index & 1:
            a = first if index & 4 else ~first
            b = second if index & 2 else ~second
            result |= a & b & (third if index & 1 else ~third)
    return result & _LANES_MASK


def permuted(low: int, selector: int, high: int) -> int:
    """Choose four of eight bytes; a selector of 8 and more repeats the sign of the byte (PTX ISA, prmt)."""
    source = (high << WORD_BITS | low).to_bytes(8, "little")
    result = 0
    for index in range(4):
        nibble = selector >> 4 * index & 15
        byte = source[nibble & 7]
        if nibble & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * index
    return result


def extended(word: LinearExpr | None, bits: int, *, sign: bool) -> LinearExpr | None:
    """Keep the lowest bits of a word and fill the others with zeros or the sign."""
    if word is None or word.align < bits:
        return None
    top = 1 << bits - 1 if sign else 0
    return LinearExpr(per_lane(lambda lane: (lane % (1 << bits) ^ top) - top, word.lanes))
