"""The effect of other opcodes on registers: bits, comparisons, selections, copies, special registers."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping

from gpuprof.sass.dataflow.bits import (
    extended,
    logic,
    permuted,
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
    signed,
    uniform_of,
)
from gpuprof.sass.dataflow.operand_reader import IS_FLAG, OperandReader, Results, Rule, next_register, split_operands
from gpuprof.sass.dataflow.warps import THREAD_INDICES, thread_indices
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import written

_SMALL = {"U8": (1, False), "S8": (1, True), "U16": (2, False), "S16": (2, True)}


# Bits


def _logic(instruction: Instruction, reader: OperandReader) -> Results | None:
    *targets, first, second, third, table, flag = instruction.operands
    if flag not in {"!PT", "!UPT"}:
        return None
    result = logic(int(table, 0), [reader.view(operand) for operand in (first, second, third)])
    return [(name, exactly(bool, result) if IS_FLAG.fullmatch(name) else result) for name in targets]


def _permute(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, *operands = instruction.operands
    return [(target, exactly(permuted, *map(reader.view, operands)))]


def _extend(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source, count = instruction.operands
    bits = number_of(reader.view(count))
    if bits is None or not 0 < bits <= WORD_BITS:
        return None
    return [(target, extended(reader.view(source), bits, sign=not instruction.opcode.endswith(".U32")))]


# Comparisons

COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
_COMBINE: Mapping[str, Callable[[int, int], int]] = {
    "AND": operator.and_,
    "OR": operator.or_,
    "XOR": operator.xor,
}


def _least(instruction: Instruction, reader: OperandReader) -> Results | None:
    """IMNMX and VIMNMX: the smaller if the predicate is true, else the larger."""
    target, flags, terms, (flag,) = split_operands(instruction)
    kinds = set(instruction.opcode.split(".")[1:])
    if kinds - {"U32", "S32"} or set(flags) - {"PT", "UPT"} or len(terms) != 2:
        return None
    read = int if "U32" in kinds else signed
    compared = [reader.view(term) for term in terms]
    least = exactly(lambda a, b: min(a, b, key=read), *compared)
    most = exactly(lambda a, b: max(a, b, key=read), *compared)
    return [(target, reader.choose(flag, least, most))]


def _compare(instruction: Instruction, reader: OperandReader) -> Results | None:
    """ISETP: a comparison combined with a third predicate."""
    kinds = instruction.opcode.split(".")[1:]
    combine = _COMBINE.get(kinds[-1])
    compare = COMPARE.get(kinds[0])
    if combine is None or compare is None or kinds[1:-1] not in ([], ["U32"]):
        return None
    first, second, left, right, third = instruction.operands
    read = int if "U32" in kinds else signed
    is_true = exactly(lambda a, b: compare(read(a), read(b)), reader.view(left), reader.view(right))
    opposite = exactly(lambda a: 1 - a, is_true)
    flag = reader.flag_view(third)
    return [(name, exactly(combine, side, flag)) for name, side in ((first, is_true), (second, opposite))]


def _flag_logic(instruction: Instruction, reader: OperandReader) -> Results | None:
    first, second, a, b, c, table, other_table = instruction.operands
    flags = [reader.flag_view(operand) for operand in (a, b, c)]
    return [
        (name, exactly(lambda a, b, c, bits=int(text, 0): bits >> (4 * a + 2 * b + c) & 1, *flags))
        for name, text in ((first, table), (second, other_table))
    ]


# Copies and constants


def _move(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source = instruction.operands
    if instruction.opcode.endswith("MOV.64"):
        return [(target, reader.word(source)), (next_register(target), reader.upper(source))]
    return [(target, reader.word(source))]


def _select(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, yes, no, flag = instruction.operands
    return [(target, reader.choose(flag, reader.word(yes), reader.word(no)))]


def _half_floats(instruction: Instruction, _: OperandReader) -> Results | None:
    """`HFMA2 R5, -RZ, RZ, 0, 2.4e-07` sets R5 to two half-precision numbers, the upper one first."""
    target, *factors = instruction.operands
    if len(factors) != 4 or factors[:2] != ["-RZ", "RZ"]:
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
    return [
        (next_register(target, word), reader.bank(source, skip=4 * word, size=size, sign=sign)) for word in range(count)
    ]


def _special(instruction: Instruction, reader: OperandReader) -> Results | None:
    """Read a special register. blockIdx is not known unless the block is the first."""
    target, source = instruction.operands
    if source == "SRZ":
        return [(target, ZERO)] + ([] if ".32" in instruction.opcode else [(next_register(target), ZERO)])
    if source.startswith(("SR_CLOCK", "SR_GLOBALTIMER")):
        return None
    if source in THREAD_INDICES:
        value = _thread_index(source, reader)
    elif source == "SR_LANEID":
        value = LinearExpr(tuple(range(LANES)))
    elif source.startswith("SR_CTAID") and reader.warp.first:
        value = ZERO
    else:
        value = reader.symbols.new(source, Symbol(kind="launch"))
    return [(target, value)]


def _thread_index(source: str, reader: OperandReader) -> LinearExpr:
    known = thread_indices(reader.warp)[THREAD_INDICES.index(source)]
    if known is None:
        return reader.symbols.new(f"{source} in each lane", Symbol(kind="lanes", varies=True))
    if known.align == WORD_BITS:
        return known
    return reader.symbols.new(source, Symbol(kind="launch"), 1 << known.align).plus(LinearExpr(known.lanes))


def _to_uniform(instruction: Instruction, reader: OperandReader) -> Results | None:
    target, source = instruction.operands
    value = reader.word(source)
    return [(target, value if value is not None and not reader.symbols.varies(value) else UNIFORM)]


def _vote(instruction: Instruction, _: OperandReader) -> Results | None:
    """Every lane that votes gets the same."""
    return [(name, UNIFORM) for name in written(instruction)]


def _shuffle(instruction: Instruction, reader: OperandReader) -> Results | None:
    """Give a word that is the same in all lanes, or that all lanes take from one lane of the whole warp."""
    flag, target, source, lane, clamp = instruction.operands
    value = uniform_of([reader.view(source)])
    if value is None and instruction.is_a("SHFL.IDX") and clamp == "0x1f":
        value = uniform_of([reader.view(lane)])
    return [(flag, None), (target, value)]


OPCODE_RULES: Mapping[str, Rule] = {
    "HFMA2": _half_floats,
    "HFMA2.MMA": _half_floats,
    "LOP3.LUT": _logic,
    "PLOP3.LUT": _flag_logic,
    "PRMT": _permute,
    "SEL": _select,
    "SGXT": _extend,
    "SGXT.U32": _extend,
}
WORD_RULES: Mapping[str, Rule] = {
    "CS2R": _special,
    "IMNMX": _least,
    "ISETP": _compare,
    "LDC": _load_constant,
    "LDCU": _load_constant,
    "MOV": _move,
    "R2UR": _to_uniform,
    "S2R": _special,
    "S2UR": _special,
    "SHFL": _shuffle,
    "VIMNMX": _least,
    "VOTE": _vote,
}
