"""The effect of each opcode on the registers of a warp. An opcode without a rule leaves nothing known behind."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from gpuprof.sass.dataflow.bits import (
    compare_low,
    extended,
    logic,
    permuted,
    shift_right,
    shift_right_pair,
)
from gpuprof.sass.dataflow.expressions import (
    LANES,
    UNIFORM,
    WORD_BITS,
    ZERO,
    LinearExpr,
    Symbol,
    exactly,
    number_of,
    per_lane,
    signed,
    uniform_of,
)
from gpuprof.sass.dataflow.operand_reader import OperandReader
from gpuprof.sass.dataflow.reaching_definitions import registers_read
from gpuprof.sass.dataflow.warps import thread_indices
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import written
from gpuprof.sass.requests import LaneRequest, requests
from gpuprof.sass.writes import LANE_BY_LANE, first_register, may_write

Result = LinearExpr | None | Callable[[], LinearExpr | None]
"""The new value of a register, or what computes it; None: nothing is known, lanes may differ."""
Results = Sequence[tuple[str, Result]]
Rule = Callable[[Instruction, OperandReader], "Results | None"]
"""None: the rule does not cover this form of the instruction."""

_NAME = re.compile(r"(U?[RP])(\d+)")
_IS_FLAG = re.compile(r"!?U?P(?:\d+|T)")
_INDICES = ("TID.X", "TID.Y", "TID.Z")
_ALL = (1 << LANES) - 1
_MASKS: Mapping[str, Callable[[int], int]] = {
    "LANEID": lambda lane: lane,
    "EQMASK": lambda lane: 1 << lane,
    "LTMASK": lambda lane: (1 << lane) - 1,
    "LEMASK": lambda lane: (2 << lane) - 1,
    "GTMASK": lambda lane: _ALL & ~((2 << lane) - 1),
    "GEMASK": lambda lane: _ALL & ~((1 << lane) - 1),
}
_SMALL = {"U8": (1, False), "S8": (1, True), "U16": (2, False), "S16": (2, True)}


def results(instruction: Instruction, reader: OperandReader) -> dict[str, Result]:
    """Return the values that an instruction writes in the lanes in which it runs."""
    writes = _by_rule(instruction, reader)
    if writes is not None:
        return dict(writes)
    unknown: dict[str, Result] = dict.fromkeys(may_write(instruction))
    if instruction.name in LANE_BY_LANE:
        views = (reader.symbols.lanes_of(reader.register(name)) for name in registers_read(instruction))
        unknown |= dict.fromkeys(written(instruction), uniform_of(views))
    elif _loads_from_one_place(instruction, reader):
        unknown |= {name: UNIFORM for name in unknown if "P" not in name}
    return unknown


def _by_rule(instruction: Instruction, reader: OperandReader) -> Results | None:
    """Return the results by a rule; None also if they lack the first register that is written."""
    rule = _RULES.get(instruction.name) or _RULES.get(instruction.name.removeprefix("U"))
    try:
        writes = rule(instruction, reader) if rule else None
    except (ValueError, IndexError):  # more or fewer operands than the rule knows
        return None
    first = first_register(instruction)
    return writes if writes and (not first or any(name == first[0] for name, _ in writes)) else None


def has_rule(instruction: Instruction) -> bool:
    """Return whether the values of single lanes lead to results that are known."""
    return instruction.name != "SHFL" and (
        instruction.name in _RULES or instruction.name.removeprefix("U") in _RULES or bool(requests(instruction))
    )


def _loads_from_one_place(instruction: Instruction, reader: OperandReader) -> bool:
    """Return whether all lanes load from one address of a space in which it is the same place for all."""
    request = _load_of_a_register(instruction)
    where = reader.symbols.lanes_of(reader.address(request.operand)) if request is not None else None
    return where is not None and isinstance(where.lanes, int)


def _load_of_a_register(instruction: Instruction) -> LaneRequest | None:
    request, *more = requests(instruction) or (None,)
    if request is None or more or instruction.name == "LDSM":
        return None
    return request if request.kind == "load" and request.space in {"global", "shared"} else None


def _next(register: str, by: int = 1) -> str:
    match = _NAME.fullmatch(register)
    return f"{match[1]}{int(match[2]) + by}" if match else register


def split_operands(instruction: Instruction) -> tuple[str, list[str], list[str], list[str]]:
    """Return the destination, the predicates of a carry out, the sources, and the predicates of a carry in."""
    target, *rest = instruction.operands
    flags = 0
    while _IS_FLAG.fullmatch(rest[flags]):
        flags += 1
    operands = rest[flags:]
    carried = [operand for operand in operands if _IS_FLAG.fullmatch(operand)]
    return target, rest[:flags], operands[: len(operands) - len(carried)], carried


def _total(terms: Sequence[LinearExpr | None]) -> LinearExpr | None:
    total = ZERO
    for term in terms:
        if term is None:
            return None
        total = total.plus(term)
    return total


def _times(reader: OperandReader, first: LinearExpr | None, second: LinearExpr | None) -> LinearExpr | None:
    return reader.symbols.product(first, second) if first is not None and second is not None else None


def _upper(
    reader: OperandReader, lower: LinearExpr | None, function: Callable[..., int], *read: LinearExpr | None
) -> LinearExpr | None:
    """Return the upper word of a function of words: uniform if the lower one is known but for what lanes share."""
    views = [reader.symbols.lanes_of(source) for source in read]
    upper = exactly(lambda *words: function(*words) >> WORD_BITS, *views)
    if upper is None and reader.symbols.lanes_of(lower) is not None:
        return UNIFORM
    return upper


# Sums and products


def _sum(instruction: Instruction, reader: OperandReader) -> Results | None:
    """IADD3, IADD and VIADD, with .X also of a carry in, with .64 of two words."""
    target, flags, operands, carried_in = split_operands(instruction)
    terms = [reader.word(operand) for operand in operands]
    total = _total([*terms, *map(reader.flag, carried_in)])
    if instruction.opcode.endswith(".64"):
        uppers = [reader.upper(operand) for operand in operands]
        high = partial(_upper, reader, total, lambda *words: sum(_pairs(words)), *terms, *uppers)
        return [(target, total), (_next(target), high), *((flag, None) for flag in flags)]
    return [(target, total), *_carried(flags, None if carried_in else partial(_carry, reader, operands, terms))]


def _pairs(words: Sequence[int]) -> Iterator[int]:
    """Yield numbers of two words: all lower words come before all upper ones."""
    half = len(words) // 2
    for low, high in zip(words[:half], words[half:], strict=True):
        yield high << WORD_BITS | low


def _carry(reader: OperandReader, operands: Sequence[str], terms: Sequence[LinearExpr | None]) -> LinearExpr | None:
    """Return the carry of a sum. A word is subtracted as the hardware does: 2^32 - x is added, also if x is 0."""

    def total(*words: int) -> int:
        return sum(
            word or (1 << WORD_BITS) * (operand[0] == "-") for word, operand in zip(words, operands, strict=True)
        )

    return _upper(reader, _total(terms), total, *terms)


def _carried(flags: Sequence[str], over: Callable[[], LinearExpr | None] | None) -> Results:
    """Distribute a carry of 0 to 2 over the predicates that are written."""
    flags = [flag for flag in flags if flag[-1] != "T"]
    if len(flags) < 2 or over is None:
        return [(flag, over) for flag in flags]
    return [(flag, partial(_exceeds, over, least)) for least, flag in enumerate(flags)]


def _exceeds(over: Callable[[], LinearExpr | None], least: int) -> LinearExpr | None:
    return exactly(lambda word: word > least, over())


def _multiply_add(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, flags, (first, second, third), carried_in = split_operands(instruction)
    kinds = instruction.opcode.split(".")
    read = signed if "U32" not in kinds else int
    carried = [reader.flag(flag) for flag in carried_in]
    factors = [reader.word(first), reader.word(second)]
    addend = reader.word(third)
    low = _total([_times(reader, *factors), addend, *carried])

    def whole(a: int, b: int, c: int, d: int, *more: int) -> int:
        return read(a) * read(b) + (d << WORD_BITS | c) + sum(more)

    words: tuple[LinearExpr | None, ...]
    if "WIDE" in kinds:
        words = (*factors, addend, reader.upper(third), *carried)
        high = partial(_upper, reader, low, whole, *words)
        over = partial(_exact, reader, lambda *all_words: whole(*all_words) >> 2 * WORD_BITS, *words)
        return [(target, low), (_next(target), high), *((flag, over) for flag in flags)]
    if "HI" in kinds:
        if carried_in:
            return None
        words = (*factors, addend, reader.upper(third))
        upper = _exact(reader, lambda *all_words: whole(*all_words) >> WORD_BITS, *words)
        return [(target, upper), *((flag, None) for flag in flags)]
    return None if flags else [(target, low)]


def _exact(reader: OperandReader, function: Callable[..., int], *read: LinearExpr | None) -> LinearExpr | None:
    return exactly(function, *map(reader.symbols.lanes_of, read))


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
        first = _times(reader, first, LinearExpr(1 << by))
    over = None if carried_in else partial(_carry, reader, ("+", terms[1]), (first, second))
    return [(target, _total([first, second, *map(reader.flag, carried_in)])), *_carried(flags, over)]


def _upper_shifted(low: LinearExpr | None, high: LinearExpr | None, by: int, *, sign: bool) -> LinearExpr | None:
    """Return the upper word of two words shifted to the left; with `sign` the upper one is the sign of the lower."""
    if low is None:
        return None
    if sign or (high is not None and high == ZERO):
        return shift_right(low, WORD_BITS - by, sign=sign)
    if high is None:
        return None
    upper = exactly(lambda a, b: (b << WORD_BITS | a) << by >> WORD_BITS, low, high)
    return UNIFORM if upper is None and isinstance(high.lanes, int) else upper


def _shift(instruction: Instruction, reader: OperandReader) -> Results | None:
    """SHF of the pair c:a, whose words are the third and the first source."""
    target, low, count, high = instruction.operands
    kinds = instruction.opcode.split(".")[1:]
    by = number_of(reader.view(count))
    if by is None or by >= WORD_BITS or "W" in kinds:
        return None
    if kinds == ["L", "U32"] and high in {"RZ", "URZ"}:
        return [(target, _times(reader, reader.word(low), LinearExpr(1 << by)))]
    if kinds == ["L", "U64", "HI"]:
        return [(target, _upper_shifted(reader.view(low), reader.view(high), by, sign=False))]
    if kinds in (["R", "U64"], ["R", "S64"]):
        return [(target, shift_right_pair(reader.view(low), reader.view(high), by))]
    if kinds in (["R", "U32", "HI"], ["R", "S32", "HI"]) and low in {"RZ", "URZ"}:
        sign = kinds[1] == "S32"
        word = reader.view(high)
        shifted = shift_right(word, by, sign=sign)
        if shifted is None and word is not None and sign and by == WORD_BITS - 1:
            shifted = UNIFORM
        return [(target, shifted)]
    return None


# Bits


def _logic(instruction: Instruction, reader: OperandReader) -> Results | None:
    *targets, first, second, third, table, flag = instruction.operands
    if instruction.opcode not in {"LOP3.LUT", "ULOP3.LUT"} or flag not in {"!PT", "!UPT"}:
        return None
    result = logic(int(table, 0), [reader.view(operand) for operand in (first, second, third)])
    return [(name, exactly(bool, result) if _IS_FLAG.fullmatch(name) else result) for name in targets]


def _permute(instruction: Instruction, reader: OperandReader) -> Results | None:
    if instruction.opcode not in {"PRMT", "UPRMT"}:
        return None
    target, *operands = instruction.operands
    return [(target, exactly(permuted, *map(reader.view, operands)))]


def _count_bits(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source = instruction.operands
    return [(target, exactly(lambda word: word.bit_count(), reader.view(source)))]


def _reverse_bits(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source = instruction.operands
    return [(target, exactly(lambda word: int(f"{word:032b}"[::-1], 2), reader.view(source)))]


def _extend(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source, count = instruction.operands
    bits = number_of(reader.view(count))
    if instruction.opcode.removeprefix("U") not in {"SGXT", "SGXT.U32"} or bits is None or not 0 < bits <= WORD_BITS:
        return None
    return [(target, extended(reader.view(source), bits, sign=not instruction.opcode.endswith(".U32")))]


# Comparisons

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
}
_COMBINE: Mapping[str, Callable[[int, int], int]] = {
    "AND": lambda a, b: a & b,
    "OR": lambda a, b: a | b,
    "XOR": lambda a, b: a ^ b,
}


def _least(instruction: Instruction, reader: OperandReader) -> Results | None:
    """IMNMX and VIMNMX: the smaller if the predicate is true, else the larger; VIADDMNMX: of a + b and c."""
    target, flags, terms, (flag,) = split_operands(instruction)
    kinds = set(instruction.opcode.split(".")[1:])
    if kinds - {"U32", "S32"} or set(flags) - {"PT", "UPT"} or len(terms) != 2 + ("ADD" in instruction.name):
        return None
    read = int if "U32" in kinds else signed
    *first, second = map(reader.word, terms)
    compared = _total(first), second
    least = _exact(reader, lambda a, b: min(a, b, key=read), *compared)
    most = _exact(reader, lambda a, b: max(a, b, key=read), *compared)
    return [(target, reader.choose(flag, least, most))]


def _compare(instruction: Instruction, reader: OperandReader) -> Results | None:
    """ISETP: a comparison combined with a third predicate; .EX: of upper words, after that of the lower ones."""
    kinds = instruction.opcode.split(".")[1:]
    combine = next((_COMBINE[kind] for kind in kinds if kind in _COMBINE), None)
    compare = _COMPARE.get(kinds[0])
    if combine is None or compare is None or set(kinds[1:]) - {"U32", "EX", *_COMBINE}:
        return None
    first, second, left, right, third, *below = instruction.operands
    read = int if "U32" in kinds else signed
    a, b = reader.view(left), reader.view(right)
    if "EX" in kinds:
        holds = exactly(lambda a, b, c: c if a == b else compare(read(a), read(b)), a, b, reader.flag_view(below[0]))
    else:
        holds = (
            exactly(lambda a, b: compare(read(a), read(b)), a, b)
            or compare_low(compare, a, b)
            or compare_low(lambda a, b: compare(b, a), b, a)
        )
    flag = reader.flag_view(third)
    opposite = exactly(lambda a: 1 - a, holds)
    return [(name, exactly(combine, side, flag)) for name, side in ((first, holds), (second, opposite))]


def _flag_logic(instruction: Instruction, reader: OperandReader) -> Results | None:
    if instruction.opcode not in {"PLOP3.LUT", "UPLOP3.LUT"}:
        return None
    first, second, a, b, c, table, other_table = instruction.operands
    flags = [reader.flag_view(operand) for operand in (a, b, c)]
    return [
        (name, exactly(lambda a, b, c, bits=int(text, 0): bits >> (4 * a + 2 * b + c) & 1, *flags))
        for name, text in ((first, table), (second, other_table))
    ]


# Copies and constants


def _move(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source = instruction.operands
    if instruction.is_a("MOV.64") or instruction.is_a("UMOV.64"):
        return [(target, reader.word(source)), (_next(target), reader.upper(source))]
    return [(target, reader.word(source))]


def _select(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, yes, no, flag = instruction.operands
    pairs = [(target, reader.word(yes), reader.word(no))]
    if instruction.opcode.endswith(".64"):
        pairs.append((_next(target), reader.upper(yes), reader.upper(no)))
    return [(name, reader.choose(flag, one, other)) for name, one, other in pairs]


def _half_floats(instruction: Instruction, _: OperandReader) -> Results | None:
    """`HFMA2 R5, -RZ, RZ, 0, 2.4e-07` sets R5 to two half-precision numbers, the upper one first."""
    target, *factors = instruction.operands
    if instruction.opcode not in {"HFMA2", "HFMA2.MMA"} or len(factors) != 4 or factors[:2] != ["-RZ", "RZ"]:
        return None
    try:
        packed = struct.pack("<e", float(factors[3])) + struct.pack("<e", float(factors[2]))
    except (ValueError, OverflowError):
        return None
    return [(target, LinearExpr(int.from_bytes(packed, "little")))]


def _load_constant(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source = instruction.operands
    kinds = set(instruction.opcode.split(".")[1:])
    small = kinds & _SMALL.keys()
    if kinds - small - {"64", "128"} or len(kinds) > 1:
        return None
    count = int(max(kinds - small, default="32")) // WORD_BITS
    size, sign = _SMALL[small.pop()] if small else (4, False)
    return [(_next(target, word), reader.bank(source, skip=4 * word, size=size, sign=sign)) for word in range(count)]


def _special(instruction: Instruction, reader: OperandReader) -> Results | None:
    """Read a special register. blockIdx is not known unless the block is the first."""
    target, source = instruction.operands
    name = source.removeprefix("SR_")
    if name in _INDICES:
        known = thread_indices(reader.warp)[_INDICES.index(name)]
        if known is None:
            return [(target, reader.symbols.new(source, Symbol(kind="lanes", varies=True)))]
        if known.align < WORD_BITS:
            rest = reader.symbols.new(source, Symbol(kind="launch"), 1 << known.align)
            known = rest.plus(LinearExpr(known.lanes))
        return [(target, known)]
    if name in _MASKS:
        return [(target, LinearExpr(per_lane(_MASKS[name], tuple(range(LANES)))))]
    if source == "SRZ":
        return [(target, ZERO)] + ([] if ".32" in instruction.opcode else [(_next(target), ZERO)])
    if name.startswith("CTAID") and reader.warp.first:
        return [(target, ZERO)]
    if name.startswith(("CLOCK", "GLOBALTIMER")):
        return None
    return [(target, reader.symbols.new(source, Symbol(kind="launch")))]


def _to_uniform(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source = instruction.operands
    held = reader.word(source)
    return [(target, held if held is not None and not reader.symbols.varies(held) else UNIFORM)]


def _vote(instruction: Instruction, _: OperandReader) -> Results | None:
    """Every lane that votes gets the same."""
    return [(name, UNIFORM) for name in written(instruction)]


def _shuffle(instruction: Instruction, reader: OperandReader) -> Results | None:
    """Give a word that is the same in all lanes, or that all lanes take from one lane of the whole warp."""
    flag, target, source, lane, clamp = instruction.operands
    held = uniform_of([reader.view(source)])
    if held is None and instruction.is_a("SHFL.IDX") and clamp == "0x1f":
        held = uniform_of([reader.view(lane)])
    return [(flag, None), (target, held)]


_RULES: Mapping[str, Rule] = {
    "BREV": _reverse_bits,
    "CS2R": _special,
    "HFMA2": _half_floats,
    "IADD": _sum,
    "IADD3": _sum,
    "IMAD": _multiply_add,
    "IMNMX": _least,
    "ISETP": _compare,
    "LDC": _load_constant,
    "LDCU": _load_constant,
    "LEA": _shift_add,
    "LOP3": _logic,
    "MOV": _move,
    "PLOP3": _flag_logic,
    "POPC": _count_bits,
    "PRMT": _permute,
    "R2UR": _to_uniform,
    "S2R": _special,
    "S2UR": _special,
    "SEL": _select,
    "SGXT": _extend,
    "SHF": _shift,
    "SHFL": _shuffle,
    "VIADD": _sum,
    "VIADDMNMX": _least,
    "VIMNMX": _least,
    "VOTE": _vote,
}
