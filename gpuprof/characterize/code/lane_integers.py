"""What integer instructions do to the registers of the 32 lanes of a warp: sums, products, bits, comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpuprof.characterize.code.lane_arithmetic import (
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
from gpuprof.characterize.code.lane_operands import Reader
from gpuprof.characterize.code.lane_values import LANES, WORD_BITS, Value, choose, constant, exactly, signed
from gpuprof.characterize.code.sass import Instruction

Results = Sequence["tuple[str, Value | None]"]
"""What is written where."""
Rule = Callable[[Instruction, Reader], "Results | None"]
"""None: the rule does not cover this form of the instruction."""

NAME = re.compile(r"(U?[RP])(\d+)")
_IS_FLAG = re.compile(r"U?P(?:\d+|T)")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
}
_COMBINE: dict[str, Callable[[int, int], int]] = {
    "AND": lambda a, b: a & b,
    "OR": lambda a, b: a | b,
    "XOR": lambda a, b: a ^ b,
}


def two(target: str, whole: Wide | None) -> Results:
    """Write two words to a register and to the next."""
    low, high = halves(whole)
    return [(target, low), (next_register(target), high)]


def next_register(register: str, by: int = 1) -> str:
    """Return the name of a register further on."""
    match = NAME.fullmatch(register)
    return f"{match[1]}{int(match[2]) + by}" if match else register


# Sums and products


def _split(item: Instruction) -> tuple[str, list[str], list[str]]:
    """Return where the result goes, where what is carried over goes, and the sources."""
    target, *others = item.operands
    flags = 0
    while _IS_FLAG.fullmatch(others[flags]):
        flags += 1
    return target, others[:flags], others[flags:]


def _sum(item: Instruction, reader: Reader) -> Results | None:
    """IADD3, IADD and VIADD, with .X also with what was carried over, with .64 of two words."""
    target, flags, operands = _split(item)
    carried_in = [operand for operand in operands if _IS_FLAG.fullmatch(operand.lstrip("!"))]
    operands = operands[: len(operands) - len(carried_in)]
    if item.opcode.endswith(".64"):
        return [*two(target, add_wide(*map(reader.wide, operands))), *((flag, None) for flag in flags)]
    terms = [reader.word(operand) for operand in operands]
    total = add(*terms, *map(reader.flag, carried_in))
    over = None
    if flags and not carried_in:
        over = carry(*((term, operand[0] == "-") for term, operand in zip(terms, operands, strict=True)))
    return [(target, total), *_carried(flags, over)]


def _carried(flags: Sequence[str], over: Value | None) -> Results:
    """Spread what is carried over, 0 to 2, over the predicates that are written."""
    flags = [flag for flag in flags if flag[-1] != "T"]
    if len(flags) < 2 or over is None:
        return [(flag, over) for flag in flags]
    if over.exact:
        return [(flags[0], exactly(lambda word: word > 0, over)), (flags[1], exactly(lambda word: word > 1, over))]
    # Both are only ever added to the next word, together.
    return [(flags[0], over), (flags[1], over._replace(lanes=(0,) * LANES))]


def _multiply_add(item: Instruction, reader: Reader) -> Results | None:
    target, flags, operands = _split(item)
    kinds = item.opcode.split(".")
    unsigned = "U32" in kinds
    one, other, third, *carried_in = operands
    factors = reader.word(one), reader.word(other)
    if "WIDE" in kinds:
        carried = [extended(reader.flag(flag), sign=False) for flag in carried_in]
        product, addend = multiply_wide(*factors, sign=not unsigned), reader.wide(third)
        over = carry_wide(product, addend, *carried) if unsigned and flags else None
        return [*two(target, add_wide(product, addend, *carried)), *((flag, over) for flag in flags)]
    if "HI" in kinds:
        if carried_in:
            return None
        whole = add_wide(multiply_wide(*factors, sign=not unsigned), reader.wide(third))
        return [(target, shift_right_wide(whole, WORD_BITS)), *((flag, None) for flag in flags)]
    if flags:
        return None
    return [(target, add(multiply(*factors), reader.word(third), *map(reader.flag, carried_in)))]


def _shift_add(item: Instruction, reader: Reader) -> Results | None:
    """LEA: (a << n) + b; LEA.HI: the upper word of (c:a) << n, plus b; .SX32: c is the sign of a."""
    target, flags, operands = _split(item)
    carried_in = [operand for operand in operands if _IS_FLAG.fullmatch(operand.lstrip("!"))]
    *terms, count = operands[: len(operands) - len(carried_in)]
    by = _number(reader.word(count))
    if by is None or any(term[0] == "-" for term in terms[:1]):
        return None
    first, second = reader.word(terms[0]), reader.word(terms[1])
    if ".HI" not in item.opcode:
        if carried_in or ".SX32" in item.opcode:
            return None
        shifted = multiply(first, constant(1 << by))
        over = carry((shifted, False), (second, terms[1][0] == "-")) if flags else None
        return [(target, add(shifted, second)), *_carried(flags, over)]
    whole = extended(first, sign=True) if ".SX32" in item.opcode else pair(first, reader.word(terms[2]))
    first = upper(shift_left(whole, by))
    over = carry((first, False), (second, terms[1][0] == "-")) if flags and not carried_in else None
    return [(target, add(first, second, *map(reader.flag, carried_in))), *_carried(flags, over)]


def _number(held: Value | None) -> int | None:
    """Return a known number that is the same for all lanes."""
    return held.lanes[0] if held is not None and held.exact and held.uniform else None


# Bits


def _shift(item: Instruction, reader: Reader) -> Results | None:
    """SHF of the pair c:a, whose words are the third and the first source."""
    target, low, count, high = item.operands
    kinds = item.opcode.split(".")[1:]
    by = _number(reader.word(count))
    if by is None or by >= WORD_BITS or "W" in kinds:
        return None
    words = reader.word(low), reader.word(high)
    if kinds == ["L", "U32"] and high in {"RZ", "URZ"}:
        return [(target, multiply(words[0], constant(1 << by)))]
    if kinds == ["L", "U64", "HI"]:
        return [(target, upper(shift_left(pair(*words), by)))]
    if kinds in (["R", "U64"], ["R", "S64"]):
        return [(target, shift_right_wide(pair(*words), by))]
    if kinds in (["R", "U32", "HI"], ["R", "S32", "HI"]) and low in {"RZ", "URZ"}:
        shifted = shift_right(words[1], by, sign=kinds[1] == "S32")
        if shifted is None and kinds[1] == "S32" and by == WORD_BITS - 1:
            shifted = upper(extended(words[1], sign=True))
        return [(target, shifted)]
    return None


def _logic(item: Instruction, reader: Reader) -> Results | None:
    *targets, one, other, third, table, flag = item.operands
    if item.opcode not in {"LOP3.LUT", "ULOP3.LUT"} or flag not in {"!PT", "!UPT"}:
        return None
    found = logic(int(table, 0), [reader.word(operand) for operand in (one, other, third)])
    return [(name, exactly(bool, found) if _IS_FLAG.fullmatch(name) else found) for name in targets]


def _permute(item: Instruction, reader: Reader) -> Results | None:
    if item.opcode not in {"PRMT", "UPRMT"}:
        return None
    target, *operands = item.operands
    return [(target, exactly(_permuted, *map(reader.word, operands)))]


def _permuted(low: int, selector: int, high: int) -> int:
    """Choose four of eight bytes; a selector of 8 and more spreads the sign of the byte (PTX ISA, prmt)."""
    source = (high << WORD_BITS | low).to_bytes(8, "little")
    chosen = [(source[nibble & 7], nibble & 8) for nibble in (selector >> shift & 15 for shift in (0, 4, 8, 12))]
    return int.from_bytes(bytes((255 if byte & 128 else 0) if sign else byte for byte, sign in chosen), "little")


def _count_bits(item: Instruction, reader: Reader) -> Results | None:
    target, source, *others = item.operands
    return None if others else [(target, exactly(lambda word: word.bit_count(), reader.word(source)))]


def _reverse_bits(item: Instruction, reader: Reader) -> Results | None:
    target, source, *others = item.operands
    return None if others else [(target, exactly(lambda word: int(f"{word:032b}"[::-1], 2), reader.word(source)))]


# Comparisons


def _least(item: Instruction, reader: Reader) -> Results | None:
    """IMNMX and VIMNMX: the smaller where the predicate holds, else the larger; VIADDMNMX: of a + b and c."""
    target, flags, (*terms, flag) = _split(item)
    if set(item.opcode.split(".")[1:]) - {"U32", "S32"} or set(flags) - {"PT", "UPT"}:
        return None
    read = int if ".U32" in item.opcode else signed
    *first, second = map(reader.word, terms)
    words = add(*first), second
    if len(first) != (2 if "ADD" in item.name else 1):
        return None
    least, most = (exactly(lambda a, b, of=of: of(a, b, key=read), *words) for of in (min, max))
    return [(target, choose(reader.flag(flag), least, most, reader.state.active))]


def _compare(item: Instruction, reader: Reader) -> Results | None:
    """ISETP: a comparison, put together with a third predicate; .EX: of upper words, after that of the lower ones."""
    kinds = item.opcode.split(".")[1:]
    combine = next((_COMBINE[kind] for kind in kinds if kind in _COMBINE), None)
    compare = _COMPARE.get(kinds[0])
    if combine is None or compare is None or set(kinds[1:]) - {"U32", "EX", *_COMBINE}:
        return None
    first, second, one, other, third, *below = item.operands
    read = int if "U32" in kinds else signed
    words = reader.word(one), reader.word(other)
    if "EX" in kinds:
        found = exactly(lambda a, b, c: c if a == b else compare(read(a), read(b)), *words, reader.flag(below[0]))
    else:
        found = exactly(lambda a, b: compare(read(a), read(b)), *words)
    flag = reader.flag(third)
    opposite = exactly(lambda a: 1 - a, found)
    return [(name, exactly(combine, held, flag)) for name, held in ((first, found), (second, opposite))]


def _flag_logic(item: Instruction, reader: Reader) -> Results | None:
    if item.opcode not in {"PLOP3.LUT", "UPLOP3.LUT"}:
        return None
    first, second, *operands, table, other_table = item.operands
    flags = [reader.flag(operand) for operand in operands]
    return [
        (name, exactly(lambda a, b, c, bits=int(text, 0): bits >> (4 * a + 2 * b + c) & 1, *flags))
        for name, text in ((first, table), (second, other_table))
    ]


INTEGER_RULES: dict[str, Rule] = {
    "BREV": _reverse_bits,
    "IADD": _sum,
    "IADD3": _sum,
    "IMAD": _multiply_add,
    "IMNMX": _least,
    "ISETP": _compare,
    "LEA": _shift_add,
    "LOP3": _logic,
    "PLOP3": _flag_logic,
    "POPC": _count_bits,
    "PRMT": _permute,
    "SHF": _shift,
    "VIADD": _sum,
    "VIADDMNMX": _least,
    "VIMNMX": _least,
}
