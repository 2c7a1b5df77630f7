"""The registers that an instruction may write, by its opcode: rather too many than too few."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from gpuprof.sass.instruction import Instruction, Operation
from gpuprof.sass.operands import numbered, written
from gpuprof.sass.requests import registers_filled, requests

_LANE_BY_LANE = {
    *("BMSK", "BREV", "DADD", "DFMA", "DMNMX", "DMUL", "DSETP", "F2F", "F2FP", "F2I", "F2IP", "FADD", "FCHK", "FFMA"),
    *("FLO", "FMNMX", "FMNMX3", "FMUL", "FRND", "FSEL", "FSET", "FSETP", "HADD2", "HFMA2", "HMNMX2", "HMUL2", "HSET2"),
    *("HSETP2", "I2F", "I2FP", "I2I", "I2IP", "IABS", "IADD", "IADD3", "IDP", "IMAD", "IMNMX", "ISETP", "LEA", "LOP3"),
    *("MOV", "MUFU", "PLOP3", "POPC", "PRMT", "SEL", "SGXT", "SHF", "VABSDIFF", "VABSDIFF4", "VIADD", "VIADDMNMX"),
    *("VIMNMX", "VIMNMX3"),
}
LANE_BY_LANE = _LANE_BY_LANE | {f"U{name}" for name in _LANE_BY_LANE}
"""Opcodes whose result in a lane follows from their sources in that lane alone, and that write what they name."""

_OTHERS = {
    *("CREDUX", "CS2R", "CS2UR", "ELECT", "LDC", "LDCU", "MATCH", "MOVM", "R2UR", "REDUX", "S2R", "S2UR", "SHFL"),
    *("ULDC", "VOTE", "VOTEU", "QSPC", "UR2UP", "P2R", "UP2UR"),
}
_AS_NAMED = LANE_BY_LANE | _OTHERS
_NOTHING = {
    *("BAR", "BPT", "BRA", "BREAK", "BRX", "BRXU", "BSSY", "BSYNC", "CALL", "CCTL", "CCTLL", "DEPBAR", "ERRBAR"),
    *("EXIT", "JMP", "JMX", "KILL", "LDGDEPBAR", "MEMBAR", "NANOSLEEP", "NOP", "PMTRIG", "RET", "WARPSYNC", "YIELD"),
}
_MATRIX = re.compile(r"^[BDHIOQ]MMA$")
_OF_WARPGROUP = re.compile(r"^[BHIQ]GMMA\.(?:\w+\.)*64x(\d{1,3})x\d{1,3}\b")
"""wgmma: 64 rows of so many columns, of 4 bytes at most, over the 128 threads of a warpgroup (PTX ISA, wgmma)."""
_SETS_PREDICATES = {"DSETP", "ELECT", "FCHK", "FSETP", "HSETP2", "ISETP", "PLOP3", "UISETP", "UPLOP3"}
_SETS_TWO = _SETS_PREDICATES | {"VOTE", "VOTEU"}
"""Opcodes whose third operand is read, also if it is a predicate."""
_WRITE_ONE = {"MUFU", "SHF", "USHF"}
"""SHF.L.U64.HI shifts two registers, and writes one of them; MUFU.RCP64H gives the upper word of an FP64 seed."""
_CONVERSIONS = {"F2I": {"S64", "U64"}, "I2F": {"F64"}, "I2I": {"S64", "U64"}}
"""The types of two registers that a conversion can give."""
_REGISTER = re.compile(r"U?R(?:\d+|Z)")
_MOST = {"R": 255, "UR": 255, "P": 7, "UP": 7}
_ALL = {"PR": ("P",), "UPR": ("UP",)}
_LEADING = 3


def may_write(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers and predicates that may hold something else after an instruction."""
    return _may_write(instruction.operation)


@lru_cache(maxsize=1 << 16)
def _may_write(operation: Operation) -> tuple[str, ...]:
    instruction = Instruction.at(0, operation)
    if instruction.idle or instruction.name in _NOTHING:
        return ()
    return tuple(dict.fromkeys(_names(instruction)))


def first_register(instruction: Instruction) -> tuple[str, ...]:
    """Return the first operand that is a register, which holds the result; none for what sets predicates only."""
    if instruction.name in _SETS_PREDICATES:
        return ()
    return next(((operand,) for operand in instruction.operands if _is_register(operand)), ())


@lru_cache(maxsize=1 << 16)
def _is_register(operand: str) -> bool:
    return _REGISTER.fullmatch(operand) is not None


def _names(instruction: Instruction) -> Iterator[str]:
    leading = list(_leading(instruction))
    if requests(instruction):
        for kind, number in leading:
            yield from _from(kind, number, registers_filled(instruction))
    elif instruction.name in _AS_NAMED:
        yield from written(instruction)
        yield from (f"{kind}{number}" for kind, number in leading if kind.endswith("P"))
        for name in first_register(instruction):
            kind, number = numbered(name)
            yield from _from(kind, number, 2 if _fills_two(instruction) else 1) if kind else ()
    elif _MATRIX.match(instruction.name):
        yield from (name for kind, number in leading[:1] for name in _from(kind, number, _of_matrix(instruction)))
    elif (wide := _OF_WARPGROUP.match(instruction.opcode)) is not None:
        yield from (name for kind, number in leading[:1] for name in _from(kind, number, int(wide[1]) // 2))
    else:
        for kind, number in leading if instruction.name != "R2P" else ():
            yield from _from(kind, number, 1 if kind.endswith("P") else _MOST[kind])
        for kind in _ALL.get("".join(instruction.operands[:1]), ()):
            yield from _from(kind, 0, _MOST[kind])


def _leading(instruction: Instruction) -> Iterator[tuple[str, int]]:
    """Yield the registers and predicates in front of what is between brackets, by kind and number."""
    for operand in instruction.operands[: 2 if instruction.name in _SETS_TWO else _LEADING]:
        if "[" in operand:
            return
        kind, number = numbered(operand.removesuffix(".reuse"))
        if kind:
            yield kind, number


def _fills_two(instruction: Instruction) -> bool:
    """Return whether a result may be of two registers; a conversion names its type first, or leaves it out.

    F2F.F32.F64 and F2I.F64.TRUNC give one, I2F.F64 and F2I.U64 two.
    """
    types = [part for part in instruction.opcode.split(".")[1:] if part[0] in "FSU" and part[1:].isdigit()]
    if instruction.name == "F2F":
        return types[:1] == ["F64"]
    if instruction.name in _CONVERSIONS:
        return _CONVERSIONS[instruction.name] & set(types) != set()
    return "64" in instruction.opcode and instruction.name not in _WRITE_ONE


def _of_matrix(instruction: Instruction) -> int:
    """Return the registers of a result of mma.sync: 16 rows of 8 columns of 4 bytes at most over 32 lanes.

    FP64 has 8 bytes, and Volta's HMMA.884 a tile for each quarter of the warp (PTX ISA, mma).
    """
    return 8 if instruction.name == "DMMA" or instruction.is_a("HMMA.884") else 4


def _from(kind: str, first: int, count: int) -> list[str]:
    """Return so many names from the first."""
    return [f"{kind}{number}" for number in range(first, min(first + count, _MOST[kind]))]
