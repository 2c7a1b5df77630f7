"""Reads registers and addresses as sums of numbers and of symbols for what is not known."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from gpuprof.code.lanes.rules import packed_halves
from gpuprof.code.lanes.values import WORD, WORD_BITS
from gpuprof.code.sass.instruction import Instruction
from gpuprof.code.sass.operands import address_terms, sources


class Sum(NamedTuple):
    """A number and multiples of symbols, modulo 2^32; the lower word of what is longer."""

    number: int
    terms: tuple[tuple[str, int], ...] = ()

    def plus(self, other: Sum, times: int = 1) -> Sum:
        """Add a multiple of another sum."""
        terms = dict(self.terms)
        for symbol, factor in other.terms:
            terms[symbol] = terms.get(symbol, 0) + factor * times
        kept = ((symbol, factor % WORD) for symbol, factor in terms.items() if factor % WORD)
        return Sum((self.number + other.number * times) % WORD, tuple(sorted(kept)))


Registers = dict[str, Sum]
GuardedSums = dict[tuple[str, str], Sum]
"""What registers hold, by their names; where a predicate is true, by both."""
Product = Callable[[Sum, Sum], Sum]
"""Gives the symbol of a product of which neither factor is a number."""

START = "start "
"""Begins the symbol of a register that nothing was written to."""
ZERO = Sum(0)
_PREDICATE = re.compile(r"!?U?P(?:\d+|T)(?:\.reuse)?")
_OPERAND = re.compile(
    r"(?P<sign>-?)(?:(?P<name>U?R\d+)|U?RZ|SRZ|(?P<bank>c\[.*\])|(?P<number>0x[0-9a-f]+|\d+))(?:\.reuse)?"
)
_BANK_0 = re.compile(r"c\[0x0\]\[(0x[0-9a-f]+)\]")
_NO_SUMS = {"X", "HI", "U8", "S8", "U16", "S16"}
"""Modifiers of instructions that give the upper word of a result, or read less than a word."""


class SumReader:
    """Reads the operands of an instruction as sums."""

    def __init__(
        self,
        instruction: Instruction,
        state: Registers,
        guarded: GuardedSums,
        constants: Mapping[int, int],
    ) -> None:
        self._predicate, self._state, self._guarded, self._constants = instruction.predicate, state, guarded, constants

    def register(self, name: str) -> Sum:
        """Return what a register or a predicate holds where the instruction's predicate is true."""
        held = self._guarded.get((name, self._predicate)) if self._predicate else None
        return held if held is not None else self._state.get(name, at_start(name))

    def word(self, operand: str) -> Sum | None:
        """Return an operand, the lower word of a longer one; None for forms that are no sums."""
        match = _OPERAND.fullmatch(operand)
        if match is None:
            return None
        if match["name"]:
            held = self.register(match["name"])
        elif match["bank"]:
            held = self._bank(match["bank"])
        else:
            held = Sum(int(match["number"] or "0", 0) % WORD)
        return ZERO.plus(held, -1) if match["sign"] else held

    def _bank(self, operand: str) -> Sum:
        match = _BANK_0.fullmatch(operand)
        at = int(match[1], 16) if match else -1
        if match and all(at + index in self._constants for index in range(4)):
            return Sum(int.from_bytes(bytes(self._constants[at + index] for index in range(4)), "little"))
        return Sum(0, ((operand, 1),))

    def address(self, operand: str) -> Sum | None:
        """Return the address between brackets: `desc[UR4][R2.64+UR8+0x10]`."""
        terms = address_terms(operand)
        where: Sum | None = ZERO if terms is not None else None
        for register, kinds, number in terms or ():
            held = self.word(register) if register else Sum(number % WORD)
            times = next((int(kind[1:]) for kind in kinds if kind.startswith("X")), 1)
            where = where.plus(held, times) if where is not None and held is not None else None
        return where


def at_start(name: str) -> Sum:
    """Return what a register holds that nothing was written to."""
    return Sum(0, ((f"{START}{name}", 1),))


def result_of(instruction: Instruction, reader: SumReader, product: Product) -> Sum | None:
    """Return what an instruction writes to its first register, where that is a sum of what it reads, or a product."""
    name, *modifiers = instruction.opcode.split(".")
    if name == "HFMA2":
        packed = packed_halves(instruction)
        return Sum(packed) if packed is not None else None
    rule = _RULES.get(name) or _RULES.get(name.removeprefix("U"))
    if rule is None or not _NO_SUMS.isdisjoint(modifiers):
        return None
    operands = [operand for operand in sources(instruction) if not _PREDICATE.fullmatch(operand)]
    read = [held for held in map(reader.word, operands) if held is not None]
    return rule(read, modifiers, product) if read and len(read) == len(operands) else None


def _copy(read: Sequence[Sum], _: Collection[str], __: Product) -> Sum | None:
    return read[0] if len(read) == 1 else None


def _add(read: Sequence[Sum], _: Collection[str], __: Product) -> Sum | None:
    return reduce(Sum.plus, read)


def _multiply_add(read: Sequence[Sum], _: Collection[str], product: Product) -> Sum | None:
    if len(read) != 3:
        return None
    first, second, addend = read
    if first.terms and second.terms:
        return product(first, second).plus(addend)
    return addend.plus(first, second.number) if first.terms else addend.plus(second, first.number)


def _shift_add(read: Sequence[Sum], _: Collection[str], __: Product) -> Sum | None:
    if len(read) != 3 or read[2].terms:
        return None
    return read[1].plus(read[0], 1 << read[2].number % WORD_BITS)


def _shift(read: Sequence[Sum], modifiers: Collection[str], __: Product) -> Sum | None:
    if "L" not in modifiers or len(read) < 2 or read[1].terms:
        return None
    return ZERO.plus(read[0], 1 << read[1].number % WORD_BITS)


_RULES: Mapping[str, Callable[[Sequence[Sum], Collection[str], Product], Sum | None]] = {
    **dict.fromkeys(("MOV", "CS2R", "LDC", "LDCU"), _copy),
    **dict.fromkeys(("IADD", "IADD3", "VIADD"), _add),
    "IMAD": _multiply_add,
    "LEA": _shift_add,
    "SHF": _shift,
}
