"""The effect of sums, products and shifts on the registers of a warp."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gpuprof.sass.dataflow.bits import (
    shift_right,
    shift_right_pair,
)
from gpuprof.sass.dataflow.expressions import (
    UNIFORM,
    WORD,
    WORD_BITS,
    ZERO,
    LinearExpr,
    exactly,
    number_of,
    signed,
    spread,
)
from gpuprof.sass.dataflow.operand_reader import OperandReader, Results, Rule, next_register, split_operands
from gpuprof.sass.instruction import Instruction


def total_of(terms: Sequence[LinearExpr | None]) -> LinearExpr | None:
    """Return a sum; None if a term is not known."""
    total = ZERO
    for term in terms:
        if term is None:
            return None
        total = total.plus(term)
    return total


def _upper(
    reader: OperandReader, lower: LinearExpr | None, function: Callable[..., int], *read: LinearExpr | None
) -> LinearExpr | None:
    """Return the upper word of a function of words; `lower` is the lower word.

    The upper word is uniform if the lower one is known except for a shared unknown, and lanes are close to each other.
    """
    views = [reader.symbols.lanes_of(source) for source in read]
    known = [view for view in views if view is not None]
    if len(known) < len(views) or all(view.exact for view in known):
        return exactly(lambda *words: function(*words) >> WORD_BITS, *views)
    whole = [function(*words) for words in zip(*(spread(view.lanes) for view in known), strict=True)]
    near = reader.symbols.lanes_of(lower) is not None and max(whole) - min(whole) < WORD // 2
    return UNIFORM if near else None


def _add(instruction: Instruction, reader: OperandReader) -> Results | None:
    """IADD3, IADD and VIADD, with .X also of a carry in, with .64 of two words."""
    target, flags, operands, carried_in = split_operands(instruction)
    terms = [reader.word(operand) for operand in operands]
    total = total_of([*terms, *map(reader.flag, carried_in)])
    if instruction.opcode.endswith(".64"):
        uppers = [reader.upper(operand) for operand in operands]
        high = partial(_upper, reader, total, _of_two_words, *terms, *uppers)
        return [(target, total), (next_register(target), high), *((flag, None) for flag in flags)]
    return [(target, total), *_carried(flags, None if carried_in else partial(_carry, reader, operands, terms))]


def _of_two_words(*words: int) -> int:
    """Return the sum of two-word numbers; all lower words are passed before all upper words."""
    half = len(words) // 2
    return sum(words[:half]) + (sum(words[half:]) << WORD_BITS)


def _carry(reader: OperandReader, operands: Sequence[str], terms: Sequence[LinearExpr | None]) -> LinearExpr | None:
    """Return the carry of a sum. Like the hardware, subtract x by adding 2^32 - x, also if x is 0."""

    def total(*words: int) -> int:
        return sum(
            word or (1 << WORD_BITS) * (operand[0] == "-") for word, operand in zip(words, operands, strict=True)
        )

    return _upper(reader, total_of(terms), total, *terms)


def _carried(flags: Sequence[str], over: Callable[[], LinearExpr | None] | None) -> Results:
    """Return the carry out, unless two predicates share it."""
    flags = [flag for flag in flags if flag[-1] != "T"]
    return [(flag, over if len(flags) == 1 else None) for flag in flags]


def _multiply_add(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, flags, (first, second, third), carried_in = split_operands(instruction)
    kinds = instruction.opcode.split(".")
    carried = [reader.flag(flag) for flag in carried_in]
    factors = [reader.word(first), reader.word(second)]
    addend = reader.word(third)
    low = total_of([reader.symbols.product(*factors), addend, *carried])
    if "WIDE" not in kinds and "HI" not in kinds:
        return None if flags else [(target, low)]
    read = signed if "U32" not in kinds else int

    def whole(a: int, b: int, c: int, d: int, *more: int) -> int:
        return read(a) * read(b) + (d << WORD_BITS | c) + sum(more)

    words = [*factors, addend, reader.upper(third), *carried]
    unknown = [(flag, None) for flag in flags]
    if "WIDE" in kinds:
        return [(target, low), (next_register(target), partial(_upper, reader, low, whole, *words)), *unknown]
    if carried_in:
        return None
    upper = exactly(lambda *known: whole(*known) >> WORD_BITS, *map(reader.symbols.lanes_of, words))
    return [(target, upper), *unknown]


def _shift_add(instruction: Instruction, reader: OperandReader) -> Results | None:
    """LEA: (a << n) + b; LEA.HI: the upper word of (c:a) << n, plus b; .SX32: c is the sign of a."""
    target, flags, (*terms, count), carried_in = split_operands(instruction)
    by = number_of(reader.view(count))
    if by is None or by >= WORD_BITS or terms[0][0] == "-":
        return None
    first, second = reader.word(terms[0]), reader.word(terms[1])
    is_signed = ".SX32" in instruction.opcode
    if ".HI" in instruction.opcode:
        third = None if is_signed else reader.view(terms[2])
        first = _upper_shifted(reader.symbols.lanes_of(first), third, by, sign=is_signed)
    elif carried_in or is_signed:
        return None
    else:
        first = reader.symbols.product(first, LinearExpr(1 << by))
    over = None if carried_in else partial(_carry, reader, ("+", terms[1]), (first, second))
    return [(target, total_of([first, second, *map(reader.flag, carried_in)])), *_carried(flags, over)]


def _upper_shifted(low: LinearExpr | None, high: LinearExpr | None, by: int, *, sign: bool) -> LinearExpr | None:
    """Return the upper word of a left shift of two words; with `sign` the upper word is the sign of the lower."""
    if low is None:
        return None
    if sign or (high is not None and high == ZERO):
        return shift_right(low, WORD_BITS - by, sign=sign)
    if high is None:
        return None
    if not low.exact and isinstance(high.lanes, int):
        return UNIFORM if max(spread(low.lanes)) << by < WORD // 2 else None
    return exactly(lambda a, b: (b << WORD_BITS | a) << by >> WORD_BITS, low, high)


def _shift(instruction: Instruction, reader: OperandReader) -> Results | None:
    """SHF of the pair c:a, whose words are the third and the first source."""
    target, low, count, high = instruction.operands
    kinds = instruction.opcode.split(".")[1:]
    by = number_of(reader.view(count))
    if by is None or by >= WORD_BITS or "W" in kinds:
        return None
    if kinds == ["L", "U32"] and high in {"RZ", "URZ"}:
        return [(target, reader.symbols.product(reader.word(low), LinearExpr(1 << by)))]
    if kinds in (["R", "U64"], ["R", "S64"]):
        return [(target, shift_right_pair(reader.view(low), reader.view(high), by))]
    if kinds in (["R", "U32", "HI"], ["R", "S32", "HI"]) and low in {"RZ", "URZ"}:
        return [(target, shift_right(reader.view(high), by, sign=kinds[1] == "S32"))]
    return None


SUM_RULES: Mapping[str, Rule] = {
    "IADD": _add,
    "IADD3": _add,
    "IMAD": _multiply_add,
    "LEA": _shift_add,
    "SHF": _shift,
    "VIADD": _add,
}
