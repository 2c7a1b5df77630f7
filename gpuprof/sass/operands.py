"""Which registers and predicates an instruction writes and reads, and whether a factor is known to be zero."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.sass.instruction import Instruction, Operation

_REGISTER = re.compile(r"U?R\d+")
_READ = re.compile(r"\bU?[RP]\d+")
_NUMBERED = re.compile(r"(U?[RP])(\d+)")
_REGISTER_OPERAND = re.compile(r"U?R(?:\d+|Z)")
_PREDICATE_OPERAND = re.compile(r"U?P(?:\d+|T)")
_ZERO = re.compile(r"[-|~!]*(?:U?RZ|SRZ|0|0x0)(?:\.\w+)?\|?")
_WRITES_NOTHING = re.compile(r"^(?:ST|STG|STS|STL|STSM|RED|REDG|BAR|BRA)\b")
_COMPARES = re.compile(r"^(?:U?PLOP3|\w*SETP2?)\b")
_RESULT, _TWO_PREDICATES, _REGISTER_PAIR = re.compile("P?RP?|P?R?"), re.compile("P{0,2}"), re.compile("RR")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]$")
_TERM = re.compile(r"(?P<register>U?R(?:\d+|Z))(?P<kinds>(?:\.64|\.U32|\.X\d+)*)|(?P<number>-?(?:0x[0-9a-f]+|\d+))")
_MOVES = {"MOV", "UMOV", "IMAD", "HFMA2", "CS2R"}
_TWO_REGISTERS = re.compile(r"^LD\w*\.(?:\w+\.)*ENL2\.256\b")
"""A load of 32 bytes writes two groups of four registers: `LDG.E.ENL2.256 R8, R4, desc[UR6][R2.64]`."""
_WIDTHS = (
    (re.compile(r"\.(?:128|256)(?:\.|$)|^[DHIQOB]G?MMA\b|^LDSM\b.*\.4(?:\.|$)"), 4),
    (
        re.compile(
            r"\.64(?:\.|$)|\.WIDE(?:\.|$)|^CS2U?R$|^D(?:FMA|MUL|ADD)\b|^LDSM\b.*\.2(?:\.|$)"
            r"|^F2F\.F64\b|^ATOMG?S?\b.*\.F64\b"
        ),
        2,
    ),
)


_KEPT = 1 << 16
"""Operands that were read once need not be read again: code repeats itself."""


def written(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers and predicates that an instruction writes, as many registers as it is wide."""
    return _written(instruction.operation)


@lru_cache(maxsize=_KEPT)
def _written(operation: Operation) -> tuple[str, ...]:
    destinations = operation.operands[: _destinations(operation)]
    return tuple(name for operand in destinations for name in registers_of(operand, operation.opcode))


@lru_cache(maxsize=_KEPT)
def named(operand: str) -> tuple[str, ...]:
    """Return the registers and predicates that an operand names: `R2` and `UR4` of `desc[UR4][R2.64]`."""
    return tuple(_READ.findall(operand))


def registers_of(operand: str, opcode: str) -> tuple[str, ...]:
    """Return the registers of an operand, as many as the instruction is wide; a predicate as it is."""
    kind, number = numbered(operand)
    width = _width(opcode)
    if width == 1 or kind.endswith("P"):
        return (operand,) if kind else ()
    return tuple(f"{kind}{number + index}" for index in range(width)) if kind else ()


@lru_cache(maxsize=_KEPT)
def numbered(operand: str) -> tuple[str, int]:
    """Return the kind and number of a register or predicate, ("UR", 4); no kind for other operands."""
    match = _NUMBERED.fullmatch(operand)
    return (match[1], int(match[2])) if match else ("", 0)


@lru_cache(maxsize=_KEPT)
def _width(opcode: str) -> int:
    """Return how many registers an instruction writes for each that it names."""
    return next((width for pattern, width in _WIDTHS if pattern.search(opcode)), 1)


@lru_cache(maxsize=_KEPT)
def _destinations(operation: Operation) -> int:
    """Return how many operands, from the first, are written.

    A comparison writes two predicates; else there may be a predicate, then a register, then the predicate of a carry.
    """
    pattern = _written_kinds(operation.opcode)
    match = pattern.match("".join(map(_kind, operation.operands[:3]))) if pattern is not None else None
    return match.end() if match is not None else 0


@lru_cache(maxsize=_KEPT)
def _written_kinds(opcode: str) -> re.Pattern[str] | None:
    """Return which kinds of operands, from the first, an instruction writes; None: nothing."""
    if _WRITES_NOTHING.match(opcode):
        return None
    if _COMPARES.match(opcode):
        return _TWO_PREDICATES
    return _REGISTER_PAIR if _TWO_REGISTERS.match(opcode) else _RESULT


@lru_cache(maxsize=_KEPT)
def _kind(operand: str) -> str:
    if _REGISTER_OPERAND.fullmatch(operand):
        return "R"
    return "P" if _PREDICATE_OPERAND.fullmatch(operand) else "-"


def sources(instruction: Instruction) -> tuple[str, ...]:
    """Return the operands that are read."""
    return _sources(instruction.operation)


@lru_cache(maxsize=_KEPT)
def _sources(operation: Operation) -> tuple[str, ...]:
    return operation.operands[_destinations(operation) :]


class AddressTerm(NamedTuple):
    """What is added up to an address: a register with how it is read, such as `64`, `U32` or `X4`, or a number."""

    register: str | None
    kinds: tuple[str, ...]
    number: int


@lru_cache(maxsize=_KEPT)
def address_terms(operand: str) -> tuple[AddressTerm, ...] | None:
    """Return the terms of the address between brackets, `desc[UR4][R2.64+UR8+0x10]`; None for other operands."""
    match = _BRACKETS.search(operand)
    if match is None:
        return None
    parts = match[1].replace("+-", "-").replace("-", "+-").split("+")
    terms = [_TERM.fullmatch(part) for part in parts if part]
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return None
    return tuple(
        AddressTerm(term["register"], tuple((term["kinds"] or "").split(".")[1:]), int(term["number"] or "0", 0))
        for term in known
    )


def waits_for(instruction: Instruction, before: Instruction) -> bool:
    """Return whether an instruction reads what `before` wrote."""
    return not _read(instruction).isdisjoint(written(before))


def _read(instruction: Instruction) -> set[str]:
    return {name for operand in (*sources(instruction), instruction.predicate or "") for name in _READ.findall(operand)}


def early_waits(opcodes: Sequence[str], loop: Sequence[Instruction]) -> int:
    """Count the results of these instructions that are read before the last of them is issued."""
    indices = [index for index, instruction in enumerate(loop) if any(instruction.is_a(opcode) for opcode in opcodes)]
    return read_by(opcodes, loop[indices[0] : indices[-1] + 1]) if indices else 0


def read_by(opcodes: Sequence[str], code: Sequence[Instruction]) -> int:
    """Count the results of these instructions that are read in straight code behind them."""
    pending: dict[str, int] = {}
    read: set[int] = set()
    for index, instruction in enumerate(code):
        read |= {pending[name] for name in _read(instruction) if name in pending}
        for name in written(instruction):
            pending.pop(name, None)
            if any(instruction.is_a(opcode) for opcode in opcodes):
                pending[name] = index
    return len(read)


def carried(opcode: str, loop: Sequence[Instruction]) -> int:
    """Count the independent chains: instructions that read what one of them wrote in the iteration before."""
    wrote: dict[str, int] = {}
    for instruction in loop:
        _note_writes(instruction, instruction.is_a(opcode), 0, wrote)
    chains = 0
    for instruction in loop:
        if instruction.is_a(opcode):
            chains += any(wrote.get(name) == 0 for name in _read(instruction))
        _note_writes(instruction, instruction.is_a(opcode), 1, wrote)
    return chains


def _note_writes(instruction: Instruction, counts: bool, iteration: int, wrote: dict[str, int]) -> None:
    """Note in which iteration of the loop registers were written by instructions that count."""
    for name in written(instruction):
        wrote.pop(name, None)
        if counts:
            wrote[name] = iteration


def zero_factors(opcode: str, loop: Sequence[Instruction], before: Sequence[Instruction]) -> int:
    """Count the multiply instructions of a loop with a factor that is zero: RZ, or a register that was set to zero.

    The factors are the first two sources. `before` is the code in front of the loop. A register holds zero if the last
    that wrote it, in this iteration of the loop, else in the one before, else in front of the loop, set it to zero.
    """
    zeros: set[str] = set()
    for instruction in (*before, *loop):
        _track_zeros(instruction, zeros)
    count = 0
    for instruction in loop:
        count += instruction.is_a(opcode) and any(_is_zero(factor, zeros) for factor in sources(instruction)[:2])
        _track_zeros(instruction, zeros)
    return count


def _track_zeros(instruction: Instruction, zeros: set[str]) -> None:
    """Bring the set of registers that hold zero up to date."""
    names = written(instruction)
    if instruction.name in _MOVES and all(_ZERO.fullmatch(source) for source in sources(instruction)):
        zeros.update(names)
    else:
        zeros.difference_update(names)


def _is_zero(factor: str, zeros: set[str]) -> bool:
    register = _REGISTER.search(factor)
    return _ZERO.fullmatch(factor) is not None or (register is not None and register[0] in zeros)
