"""What comparisons do to the registers and predicates of the 32 lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.arithmetic import add
from gpuprof.sass.lanes.integers import LaneRule, Results, number_of, split_operands
from gpuprof.sass.lanes.operands import Reader
from gpuprof.sass.lanes.values import UNIFORM, LaneValue, choose, exactly, signed

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
}
_TABLE_SOURCES = 3
_COMBINE: dict[str, Callable[[int, int], int]] = {
    "AND": lambda a, b: a & b,
    "OR": lambda a, b: a | b,
    "XOR": lambda a, b: a ^ b,
}


def _least(instruction: Instruction, reader: Reader) -> Results | None:
    """IMNMX and VIMNMX: the smaller where the predicate holds, else the larger; VIADDMNMX: of a + b and c."""
    target, flags, (*terms, flag) = split_operands(instruction)
    if set(instruction.opcode.split(".")[1:]) - {"U32", "S32"} or set(flags) - {"PT", "UPT"}:
        return None
    read = int if ".U32" in instruction.opcode else signed
    *first, second = map(reader.word, terms)
    compared = add(*first), second
    if len(first) != (2 if "ADD" in instruction.name else 1):
        return None
    least, most = (exactly(lambda a, b, of=of: of(a, b, key=read), *compared) for of in (min, max))
    return [(target, choose(reader.flag(flag), least, most, reader.state.active))]


def _compare(instruction: Instruction, reader: Reader) -> Results | None:
    """ISETP: a comparison, put together with a third predicate; .EX: of upper words, after that of the lower ones."""
    kinds = instruction.opcode.split(".")[1:]
    combine = next((_COMBINE[kind] for kind in kinds if kind in _COMBINE), None)
    compare = _COMPARE.get(kinds[0])
    if combine is None or compare is None or set(kinds[1:]) - {"U32", "EX", *_COMBINE}:
        return None
    first, second, left, right, third, *below = instruction.operands
    read = int if "U32" in kinds else signed
    operands = reader.word(left), reader.word(right)
    if "EX" in kinds:
        holds = exactly(lambda a, b, c: c if a == b else compare(read(a), read(b)), *operands, reader.flag(below[0]))
    else:
        holds = (
            exactly(lambda a, b: compare(read(a), read(b)), *operands)
            or _compare_low(compare, *operands)
            or _compare_low(lambda a, b: compare(b, a), *operands[::-1])
        )
    flag = reader.flag(third)
    opposite = exactly(lambda a: 1 - a, holds)
    return [(name, exactly(combine, held, flag)) for name, held in ((first, holds), (second, opposite))]


def _compare_low(
    compare: Callable[[int, int], bool], word: LaneValue | None, limit: LaneValue | None
) -> LaneValue | None:
    """Compare a partly known word with a number: the same for all lanes, where that of the known bits is."""
    number = number_of(limit)
    if word is None or number is None or word.high or max(word.lanes) >= 1 << word.align:
        return None
    low = number % (1 << word.align)
    return UNIFORM if len({compare(lane, low) for lane in word.lanes}) == 1 else None


def _flag_logic(instruction: Instruction, reader: Reader) -> Results | None:
    if instruction.opcode not in {"PLOP3.LUT", "UPLOP3.LUT"}:
        return None
    first, second, *operands, table, other_table = instruction.operands
    flags = [reader.flag(operand) for operand in operands]
    if len(flags) != _TABLE_SOURCES:
        return None
    return [
        (name, exactly(lambda a, b, c, bits=int(text, 0): bits >> (4 * a + 2 * b + c) & 1, *flags))
        for name, text in ((first, table), (second, other_table))
    ]


COMPARISON_RULES: dict[str, LaneRule] = {
    "IMNMX": _least,
    "ISETP": _compare,
    "PLOP3": _flag_logic,
    "VIADDMNMX": _least,
    "VIMNMX": _least,
}
