"""Read the operands of an instruction as affine expressions: registers, numbers, constants, addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from gpuprof.sass.dataflow.expressions import (
    ONE,
    WORD,
    WORD_BITS,
    ZERO,
    LinearExpr,
    Symbol,
    Symbols,
    uniform_of,
)
from gpuprof.sass.dataflow.launch_constants import bank_offset
from gpuprof.sass.dataflow.warps import ThreadBlock
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import address_terms, named

_OPERAND = re.compile(
    r"(?P<sign>[-~]?)(?:(?P<register>U?R)(?P<number>\d+|Z)|(?P<constant>c\[.*\])|(?P<immediate>0x[0-9a-f]+|\d+)|SRZ)"
    r"(?:\.reuse)?"
)
_FLAG = re.compile(r"(?P<not>!?)(?P<name>U?P(?:\d+|T))(?:\.reuse)?")


class _Form(Struct, frozen=True):
    """The parts of an operand: its sign and a register, a constant or a number."""

    sign: str
    register: str | None
    constant: str | None
    number: int


@lru_cache(maxsize=1 << 16)
def _form_of(operand: str) -> _Form | None:
    match = _OPERAND.fullmatch(operand)
    if match is None:
        return None
    register = f"{match['register']}{match['number']}" if match["register"] and match["number"] != "Z" else None
    return _Form(match["sign"], register, match["constant"], int(match["immediate"] or "0", 0))


class OperandReader:
    """Reads the operands of one instruction.

    `known` maps the registers that it reads to their values. `active` is the mask of lanes that may run it. `constants`
    are the known bytes of constant bank 0 by their offset.
    """

    def __init__(
        self,
        known: Mapping[str, LinearExpr],
        symbols: Symbols,
        warp: ThreadBlock,
        constants: Mapping[int, int],
        active: int,
    ) -> None:
        self.symbols, self.warp, self.active = symbols, warp, active
        self.known, self._constants = known, constants

    def word(self, operand: str) -> LinearExpr | None:
        """Return the value of an operand, the lower word of a longer one; None for unknown forms."""
        form = _form_of(operand)
        if form is None:
            return None
        if form.register:
            value = self.known.get(form.register)
        elif form.constant:
            value = self.bank(form.constant)
        else:
            value = LinearExpr(form.number % WORD)
        return _with_sign(form.sign, value)

    def upper(self, operand: str) -> LinearExpr | None:
        """Return the upper word of an operand of two words; None if it is a register or constant with a sign."""
        form = _form_of(operand)
        if form is None or (form.sign and (form.register or form.constant)):
            return None
        if form.register:
            return self.known.get(next_register(form.register))
        if form.constant:
            return self.bank(form.constant, skip=4)
        number = -form.number if form.sign == "-" else form.number
        return LinearExpr((number >> WORD_BITS) % WORD)

    def view(self, operand: str) -> LinearExpr | None:
        """Return the value of an operand without symbols; None if the differences between lanes are unknown."""
        return self.symbols.lanes_of(self.word(operand))

    def flag(self, operand: str) -> LinearExpr | None:
        """Return the value of a predicate; 1 for PT."""
        match = _FLAG.fullmatch(operand)
        if match is None:
            return None
        value = ONE if match["name"].endswith("T") else self.known.get(match["name"])
        return ONE.plus(value, -1) if value is not None and match["not"] else value

    def flag_view(self, operand: str) -> LinearExpr | None:
        """Return a predicate without symbols."""
        return self.symbols.lanes_of(self.flag(operand))

    def choose(self, flag: str, yes: LinearExpr | None, no: LinearExpr | None) -> LinearExpr | None:
        """Return `yes` in the lanes in which a predicate is true, `no` in the others; None if unknown."""
        if yes is None or no is None:
            return None
        return self.symbols.choose(self.flag(flag), yes, no, self.active)

    def bank(self, operand: str, *, skip: int = 0, size: int = 4, sign: bool = False) -> LinearExpr | None:
        """Return a constant; it is the same in all lanes if its address is."""
        offset = bank_offset(operand)
        if offset is None:
            registers = named(operand)
            if registers:
                return uniform_of(self.symbols.lanes_of(self.known.get(name)) for name in registers)
            return self.symbols.new(f"{operand}+{skip}" if skip else operand, Symbol(kind="constant"))
        offset += skip
        number, known = 0, 0
        while known < size and offset + known in self._constants:
            number |= self._constants[offset + known] << 8 * known
            known += 1
        if known < size:
            symbol = Symbol(kind="constant", align=8 * known)
            return self.symbols.new(f"c[0x0][{offset:#x}]", symbol).plus(LinearExpr(number))
        if sign and number >> 8 * size - 1:
            number -= 1 << 8 * size
        return LinearExpr(number % WORD)

    def address(self, operand: str) -> LinearExpr | None:
        """Return the lower word of the address between brackets: `desc[UR4][R2.64+UR8+0x10]`, `[R3.X4+0x80]`."""
        terms = address_terms(operand)
        if terms is None:
            return None
        where = ZERO
        for register, kinds, number in terms:
            value = self.word(register) if register else LinearExpr(number % WORD)
            if value is None:
                return None
            times = next((int(kind[1:]) for kind in kinds if kind.startswith("X")), 1)
            where = where.plus(value, times)
        return where


def _with_sign(sign: str, value: LinearExpr | None) -> LinearExpr | None:
    if not sign or value is None:
        return value
    return (ZERO if sign == "-" else LinearExpr(WORD - 1)).plus(value, -1)


Result = LinearExpr | None | Callable[[], LinearExpr | None]
"""The new value of a register, or a function that computes it; None: unknown, and lanes may differ."""
Results = Sequence[tuple[str, Result]]
Rule = Callable[[Instruction, OperandReader], "Results | None"]
"""None: the rule does not cover this form of the instruction."""

_NUMBERED = re.compile(r"(U?[RP])(\d+)")
IS_FLAG = re.compile(r"!?U?P(?:\d+|T)")


def next_register(register: str, by: int = 1) -> str:
    """Return the name of the register `by` numbers higher."""
    match = _NUMBERED.fullmatch(register)
    return f"{match[1]}{int(match[2]) + by}" if match else register


def split_operands(instruction: Instruction) -> tuple[str, list[str], list[str], list[str]]:
    """Split operands into the destination, predicates of the carry out, sources, and predicates of the carry in."""
    target, *rest = instruction.operands
    flags = 0
    while IS_FLAG.fullmatch(rest[flags]):
        flags += 1
    operands = rest[flags:]
    carried = [operand for operand in operands if IS_FLAG.fullmatch(operand)]
    return target, rest[:flags], operands[: len(operands) - len(carried)], carried
