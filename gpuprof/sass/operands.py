"""The operands of an instruction: the registers and predicates that it reads and writes, and the terms of addresses.

If in doubt, more registers count as written: an unknown opcode writes all from its destination on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from gpuprof.sass.instruction import Instruction, once_for_each_operation
from gpuprof.sass.requests import registers_moved

_NAMED = re.compile(r"\bU?[RP]\d+")
_NUMBERED = re.compile(r"(U?[RP])(\d+)")
_REGISTER_OR_PREDICATE = re.compile(r"U?(?:R(?:\d+|Z)|P(?:\d+|T))")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]$")
_TERM = re.compile(r"(?P<register>U?R(?:\d+|Z))(?P<kinds>(?:\.64|\.U32|\.X\d+)*)|(?P<number>-?(?:0x[0-9a-f]+|\d+))")

_LANE_BY_LANE = {
    *("BMSK", "BREV", "DADD", "DFMA", "DMNMX", "DMUL", "DSETP", "F2F", "F2FP", "F2I", "F2IP", "FADD", "FCHK", "FFMA"),
    *("FLO", "FMNMX", "FMNMX3", "FMUL", "FRND", "FSEL", "FSET", "FSETP", "HADD2", "HFMA2", "HMNMX2", "HMUL2", "HSET2"),
    *("HSETP2", "I2F", "I2FP", "I2I", "I2IP", "IABS", "IADD", "IADD3", "IDP", "IMAD", "IMNMX", "ISETP", "LEA", "LOP3"),
    *("MOV", "MUFU", "PLOP3", "POPC", "PRMT", "SEL", "SGXT", "SHF", "VABSDIFF", "VABSDIFF4", "VIADD", "VIADDMNMX"),
    *("VIMNMX", "VIMNMX3"),
}
LANE_BY_LANE = _LANE_BY_LANE | {f"U{name}" for name in _LANE_BY_LANE}
"""Opcodes whose result in a lane follows from their sources in that lane alone."""
_KNOWN = LANE_BY_LANE | {
    *("B2R", "BMOV", "CREDUX", "CS2R", "CS2UR", "ELECT", "FADD2", "FFMA2", "FMUL2", "LDC", "LDCU", "LEPC", "MATCH"),
    *("MOVM", "P2R", "QSPC", "R2P", "R2UR", "REDUX", "S2R", "S2UR", "SHFL", "ULDC", "UP2UR", "UR2UP", "VOTE", "VOTEU"),
}
_WRITES_NOTHING = {
    *("BAR", "BPT", "BRA", "BREAK", "BRX", "BRXU", "BSSY", "BSYNC", "CALL", "CCTL", "CCTLL", "DEPBAR", "ERRBAR"),
    *("EXIT", "JMP", "JMX", "KILL", "LDGDEPBAR", "MEMBAR", "NANOSLEEP", "NOP", "PMTRIG", "RET", "WARPSYNC", "YIELD"),
}
_MATRIX = re.compile(r"[BDHIOQ]MMA")
_OF_WARPGROUP = re.compile(r"[BHIQ]GMMA\.(?:\w+\.)*64x(\d{1,3})x\d{1,3}\b")
"""wgmma: 64 rows of so many columns, of 4 bytes at most, over the 128 threads of a warpgroup (PTX ISA, wgmma)."""
_CONVERSIONS = {"F2I": {"S64", "U64"}, "I2F": {"F64"}, "I2I": {"S64", "U64"}}
"""The result types of conversions that take two registers."""
_WRITE_ONE = {"MUFU", "SHF", "USHF"}
"""SHF.L.U64.HI shifts two registers and writes one of them. MUFU.RCP64H writes the upper word alone."""
_WRITE_TWO = {"DADD", "DFMA", "DMNMX", "DMUL", "FADD2", "FFMA2", "FMUL2", "LEPC"}
_READS_TWO = re.compile(r"(?!U?SHF|MUFU|F2F\.F64|I2F\.F64(?!\.[SU]64)).*64|D")
_WIDE_ADDEND = re.compile(r"U?IMAD\..*(?:WIDE|HI)")
_WRITTEN_KINDS = re.compile(r"P{0,2}RP{0,2}|P?")
"""Destinations: up to two predicates, a register (R), up to two predicates of carries; or one predicate (P)."""
_WRITTEN_BY = {
    **dict.fromkeys(("DSETP", "FCHK", "FSETP", "HSETP2", "ISETP", "PLOP3"), re.compile("P{0,2}")),
    **dict.fromkeys(("VOTE", "VOTEU"), re.compile("RP|P?")),
}
_COUNTS = {"R": 255, "UR": 255, "P": 7, "UP": 7}
_KEPT = 1 << 16
"""Size of caches of parsed operands: code repeats itself."""


# Written and read


@once_for_each_operation
def written(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers and predicates that may have another value after an instruction."""
    if instruction.idle or instruction.name in _WRITES_NOTHING:
        return ()
    if instruction.operands[:1] in {("PR",), ("UPR",)}:
        kind = instruction.operands[0].removesuffix("R")
        return tuple(f"{kind}{number}" for number in range(_COUNTS[kind]))
    operands = _destinations(instruction)
    count = _registers_written(instruction)
    if count is None:
        operands = _leading(instruction)
        count = _COUNTS["R"]
    names: dict[str, None] = {}
    for operand in operands:
        names.update(dict.fromkeys(_from(operand, count)))
    return tuple(names)


@once_for_each_operation
def sources(instruction: Instruction) -> tuple[str, ...]:
    """Return the operands that are read."""
    return instruction.operands[len(_destinations(instruction)) :]


@once_for_each_operation
def registers_read(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers and predicates that are read, without the guard; all registers of wide values."""
    read = sources(instruction)
    names: dict[str, None] = {}
    for operand in read:
        count = _words_read(instruction, operand, is_addend=operand in read[2:3])
        for name in named(operand):
            names.update(dict.fromkeys(_from(name, count)))
    return tuple(names)


def waits_for(instruction: Instruction, before: Instruction) -> bool:
    """Return whether an instruction reads what `before` wrote."""
    return not set(written(before)).isdisjoint((*registers_read(instruction), *named(instruction.predicate or "")))


def _destinations(instruction: Instruction) -> Sequence[str]:
    """Return the first operands, which are written."""
    if instruction.name in _WRITES_NOTHING:
        return ()
    operands = _leading(instruction)
    if registers_moved(instruction) is not None:
        return operands
    pattern = _WRITTEN_BY.get(instruction.name.removeprefix("U"), _WRITTEN_KINDS)
    kinds = "".join("P" if "P" in operand else "R" for operand in operands)
    match = pattern.match(kinds)
    return operands[: match.end()] if match else ()


def _leading(instruction: Instruction) -> Sequence[str]:
    """Return the registers and predicates among the first three operands, up to the first operand of another kind."""
    return tuple(takewhile(_REGISTER_OR_PREDICATE.fullmatch, instruction.operands[:3]))


def _registers_written(instruction: Instruction) -> int | None:
    """Return how many registers each destination of an instruction has; None if its opcode is unknown.

    mma.sync: 16 rows of 8 columns of 4 bytes at most over 32 lanes; FP64 has 8 bytes, and Volta's HMMA.884 a tile for
    each quarter of the warp (PTX ISA, mma).
    """
    moved = registers_moved(instruction)
    if moved is not None:
        return moved
    if _MATRIX.fullmatch(instruction.name):
        return 8 if instruction.name == "DMMA" or instruction.is_a("HMMA.884") else 4
    of_warpgroup = _OF_WARPGROUP.match(instruction.opcode)
    if of_warpgroup is not None:
        return int(of_warpgroup[1]) // 2
    if instruction.name not in _KNOWN:
        return None
    if ".128" in instruction.opcode:
        return 4
    return 2 if _writes_two(instruction) else 1


def _writes_two(instruction: Instruction) -> bool:
    """Return whether a result may take two registers. A conversion names its result type first, or leaves it out.

    F2F.F32.F64 and F2I.F64.TRUNC give one, I2F.F64 and F2I.U64 two.
    """
    if instruction.name == "F2F":
        return instruction.is_a("F2F.F64")
    if instruction.name in _CONVERSIONS:
        return not _CONVERSIONS[instruction.name].isdisjoint(instruction.opcode.split("."))
    if instruction.name in _WRITE_ONE:
        return False
    is_wide = "64" in instruction.opcode or ".WIDE" in instruction.opcode
    return is_wide or instruction.name in _WRITE_TWO or instruction.opcode in {"CS2R", "CS2UR"}


def _words_read(instruction: Instruction, operand: str, *, is_addend: bool) -> int:
    """Return the most registers that are read, from the one that an operand names on."""
    moved = registers_moved(instruction)
    if moved is not None:
        return moved if "[" not in operand else 1
    if _WIDE_ADDEND.match(instruction.opcode):
        return 2 if is_addend else 1
    return 2 if _READS_TWO.match(instruction.opcode) else 1


def _from(operand: str, count: int) -> list[str]:
    """Return `count` registers from an operand on; a predicate alone; nothing for other operands."""
    kind, first = numbered(operand)
    last = first + (1 if kind.endswith("P") else count)
    return [f"{kind}{number}" for number in range(first, min(last, _COUNTS.get(kind, 0)))]


# Parts of operands


@lru_cache(maxsize=_KEPT)
def named(operand: str) -> tuple[str, ...]:
    """Return the registers and predicates that an operand names: `R2` and `UR4` of `desc[UR4][R2.64]`."""
    return tuple(_NAMED.findall(operand))


@lru_cache(maxsize=_KEPT)
def numbered(operand: str) -> tuple[str, int]:
    """Return the kind and number of a register or predicate, ("UR", 4); no kind for other operands."""
    match = _NUMBERED.fullmatch(operand)
    return (match[1], int(match[2])) if match else ("", 0)


class AddressTerm(NamedTuple):
    """A term of an address: a number, or a register with how it is read, such as `64`, `U32` or `X4`."""

    register: str | None
    kinds: tuple[str, ...]
    number: int


@lru_cache(maxsize=_KEPT)
def address_terms(operand: str) -> tuple[AddressTerm, ...] | None:
    """Return the terms of the address between brackets, `desc[UR4][R2.64+UR8+0x10]`; None for other operands."""
    match = _BRACKETS.search(operand)
    if match is None:
        return None
    terms = []
    for part in match[1].replace("+-", "-").replace("-", "+-").split("+"):
        term = _TERM.fullmatch(part)
        if term is not None:
            kinds = tuple((term["kinds"] or "").split(".")[1:])
            terms.append(AddressTerm(term["register"], kinds, int(term["number"] or "0", 0)))
        elif part:
            return None
    return tuple(terms)
