"""What integer instructions do to the registers of the 32 lanes of a warp: sums, products and bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.arithmetic import (
    Wide,
    add,
    add_wide,
    carry,
    carry_wide,
    extended,
    halves,
    logic,
    multiply,
    multiply_wide,
    pair,
    shift_left,
    shift_right,
    shift_right_wide,
    upper,
)
from gpuprof.sass.lanes.operands import Reader
from gpuprof.sass.lanes.values import LANES, WORD_BITS, LaneValue, constant, exactly, value

Results = Sequence["tuple[str, LaneValue | None]"]
"""What is written where."""
LaneRule = Callable[[Instruction, Reader], "Results | None"]
"""None: the rule does not cover this form of the instruction."""

NAME = re.compile(r"(U?[RP])(\d+)")
IS_FLAG = re.compile(r"U?P(?:\d+|T)")


def two(target: str, whole: Wide | None) -> Results:
    """Write two words to a register and to the next."""
    low, high = halves(whole)
    return [(target, low), (next_register(target), high)]


def next_register(register: str, by: int = 1) -> str:
    """Return the name of a register further on."""
    match = NAME.fullmatch(register)
    return f"{match[1]}{int(match[2]) + by}" if match else register


# Sums and products


def split_operands(instruction: Instruction) -> tuple[str, list[str], list[str]]:
    """Return where the result goes, where what is carried over goes, and the sources."""
    target, *rest = instruction.operands
    flags = 0
    while IS_FLAG.fullmatch(rest[flags]):
        flags += 1
    return target, rest[:flags], rest[flags:]


def _sum(instruction: Instruction, reader: Reader) -> Results | None:
    """IADD3, IADD and VIADD, with .X also with what was carried over, with .64 of two words."""
    target, flags, operands = split_operands(instruction)
    carried_in = [operand for operand in operands if IS_FLAG.fullmatch(operand.lstrip("!"))]
    operands = operands[: len(operands) - len(carried_in)]
    if instruction.opcode.endswith(".64"):
        return [*two(target, add_wide(*map(reader.wide, operands))), *((flag, None) for flag in flags)]
    terms = [reader.word(operand) for operand in operands]
    total = add(*terms, *map(reader.flag, carried_in))
    over = None
    if flags and not carried_in:
        over = carry(*((term, operand[0] == "-") for term, operand in zip(terms, operands, strict=True)))
    return [(target, total), *_carried(flags, over)]


def _carried(flags: Sequence[str], over: LaneValue | None) -> Results:
    """Spread what is carried over, 0 to 2, over the predicates that are written."""
    flags = [flag for flag in flags if flag[-1] != "T"]
    if len(flags) < 2 or over is None:
        return [(flag, over) for flag in flags]
    if over.exact:
        return [(flags[0], exactly(lambda word: word > 0, over)), (flags[1], exactly(lambda word: word > 1, over))]
    # Both are only ever added to the next word, together.
    return [(flags[0], over), (flags[1], over._replace(lanes=(0,) * LANES))]


def _multiply_add(instruction: Instruction, reader: Reader) -> Results | None:
    target, flags, operands = split_operands(instruction)
    kinds = instruction.opcode.split(".")
    unsigned = "U32" in kinds
    factor, second_factor, addend_operand, *carried_in = operands
    factors = reader.word(factor), reader.word(second_factor)
    if "WIDE" in kinds:
        carried = [extended(reader.flag(flag), sign=False) for flag in carried_in]
        product, addend = multiply_wide(*factors, sign=not unsigned), reader.wide(addend_operand)
        over = carry_wide(product, addend, *carried) if unsigned and flags else None
        return [*two(target, add_wide(product, addend, *carried)), *((flag, over) for flag in flags)]
    if "HI" in kinds:
        if carried_in:
            return None
        whole = add_wide(multiply_wide(*factors, sign=not unsigned), reader.wide(addend_operand))
        return [(target, shift_right_wide(whole, WORD_BITS)), *((flag, None) for flag in flags)]
    if flags:
        return None
    return [(target, add(multiply(*factors), reader.word(addend_operand), *map(reader.flag, carried_in)))]


def _shift_add(instruction: Instruction, reader: Reader) -> Results | None:
    """LEA: (a << n) + b; LEA.HI: the upper word of (c:a) << n, plus b; .SX32: c is the sign of a."""
    target, flags, operands = split_operands(instruction)
    carried_in = [operand for operand in operands if IS_FLAG.fullmatch(operand.lstrip("!"))]
    *terms, count = operands[: len(operands) - len(carried_in)]
    by = number_of(reader.word(count))
    if by is None or by >= WORD_BITS or any(term[0] == "-" for term in terms[:1]):
        return None
    first, second = reader.word(terms[0]), reader.word(terms[1])
    if ".HI" not in instruction.opcode:
        if carried_in or ".SX32" in instruction.opcode:
            return None
        shifted = multiply(first, constant(1 << by))
        over = carry((shifted, False), (second, terms[1][0] == "-")) if flags else None
        return [(target, add(shifted, second)), *_carried(flags, over)]
    whole = extended(first, sign=True) if ".SX32" in instruction.opcode else pair(first, reader.word(terms[2]))
    first = upper(shift_left(whole, by))
    over = carry((first, False), (second, terms[1][0] == "-")) if flags and not carried_in else None
    return [(target, add(first, second, *map(reader.flag, carried_in))), *_carried(flags, over)]


def number_of(held: LaneValue | None) -> int | None:
    """Return a known number that is the same for all lanes."""
    return held.lanes[0] if held is not None and held.exact and held.uniform else None


# Bits


def _shift(instruction: Instruction, reader: Reader) -> Results | None:
    """SHF of the pair c:a, whose words are the third and the first source."""
    target, low, count, high = instruction.operands
    kinds = instruction.opcode.split(".")[1:]
    by = number_of(reader.word(count))
    if by is None or by >= WORD_BITS or "W" in kinds:
        return None
    low_high = reader.word(low), reader.word(high)
    if kinds == ["L", "U32"] and high in {"RZ", "URZ"}:
        return [(target, multiply(low_high[0], constant(1 << by)))]
    if kinds == ["L", "U64", "HI"]:
        return [(target, upper(shift_left(pair(*low_high), by)))]
    if kinds in (["R", "U64"], ["R", "S64"]):
        return [(target, shift_right_wide(pair(*low_high), by))]
    if kinds in (["R", "U32", "HI"], ["R", "S32", "HI"]) and low in {"RZ", "URZ"}:
        shifted = shift_right(low_high[1], by, sign=kinds[1] == "S32")
        if shifted is None and kinds[1] == "S32" and by == WORD_BITS - 1:
            shifted = upper(extended(low_high[1], sign=True))
        return [(target, shifted)]
    return None


def _logic(instruction: Instruction, reader: Reader) -> Results | None:
    *targets, first, second, third, table, flag = instruction.operands
    if instruction.opcode not in {"LOP3.LUT", "ULOP3.LUT"} or flag not in {"!PT", "!UPT"}:
        return None
    result = logic(int(table, 0), [reader.word(operand) for operand in (first, second, third)])
    return [(name, exactly(bool, result) if IS_FLAG.fullmatch(name) else result) for name in targets]


def _permute(instruction: Instruction, reader: Reader) -> Results | None:
    if instruction.opcode not in {"PRMT", "UPRMT"}:
        return None
    target, *operands = instruction.operands
    return [(target, exactly(_permuted, *map(reader.word, operands)))]


def _permuted(low: int, selector: int, high: int) -> int:
    """Choose four of eight bytes; a selector of 8 and more spreads the sign of the byte (PTX ISA, prmt)."""
    source = (high << WORD_BITS | low).to_bytes(8, "little")
    chosen = [(source[nibble & 7], nibble & 8) for nibble in (selector >> shift & 15 for shift in (0, 4, 8, 12))]
    return int.from_bytes(bytes((255 if byte & 128 else 0) if sign else byte for byte, sign in chosen), "little")


def _count_bits(instruction: Instruction, reader: Reader) -> Results | None:
    target, source, *rest = instruction.operands
    return None if rest else [(target, exactly(lambda word: word.bit_count(), reader.word(source)))]


def _reverse_bits(instruction: Instruction, reader: Reader) -> Results | None:
    target, source, *rest = instruction.operands
    return None if rest else [(target, exactly(lambda word: int(f"{word:032b}"[::-1], 2), reader.word(source)))]


def _extend(instruction: Instruction, reader: Reader) -> Results | None:
    """SGXT: keep so many of the lowest bits, and fill the others with the sign; .U32: with zeros."""
    target, source, count = instruction.operands
    bits, word = number_of(reader.word(count)), reader.word(source)
    if instruction.opcode.removeprefix("U") not in {"SGXT", "SGXT.U32"} or bits is None or not 0 < bits <= WORD_BITS:
        return None
    if word is None or word.high or word.align < bits:
        return None
    top = 0 if instruction.opcode.endswith(".U32") else 1 << bits - 1
    return [(target, value((lane % (1 << bits) ^ top) - top for lane in word.lanes))]


INTEGER_RULES: dict[str, LaneRule] = {
    "BREV": _reverse_bits,
    "IADD": _sum,
    "IADD3": _sum,
    "IMAD": _multiply_add,
    "LEA": _shift_add,
    "LOP3": _logic,
    "POPC": _count_bits,
    "PRMT": _permute,
    "SGXT": _extend,
    "SHF": _shift,
    "VIADD": _sum,
}
