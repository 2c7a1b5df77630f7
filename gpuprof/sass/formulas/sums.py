"""Reads registers and addresses as sums of numbers and of symbols for what is not known."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

from msgspec import Struct

from gpuprof.sass.instruction import Instruction, Operation
from gpuprof.sass.lanes.rules import packed_halves
from gpuprof.sass.lanes.values import WORD, WORD_BITS
from gpuprof.sass.operands import address_terms, sources


class Sum(NamedTuple):
    """A number and multiples of symbols, modulo 2^32; the lower word of what is longer."""

    number: int
    terms: tuple[tuple[str, int], ...] = ()

    def plus(self, other: Sum, times: int = 1) -> Sum:
        """Add a multiple of another sum."""
        number = (self.number + other.number * times) % WORD
        if not other.terms or (times == 1 and not self.terms):
            return Sum(number, self.terms or other.terms)
        terms = dict(self.terms)
        for symbol, factor in other.terms:
            terms[symbol] = (terms.get(symbol, 0) + factor * times) % WORD
        return Sum(number, tuple(sorted([term for term in terms.items() if term[1]])))


Product = Callable[[Sum, Sum], Sum]
"""Gives the symbol of a product of which neither factor is a number."""

START = "start "
"""Begins the symbol of a register that nothing was written to."""
ZERO = Sum(0)
_PREDICATE = re.compile(r"!?U?P(?:\d+|T)(?:\.reuse)?")
_OPERAND = re.compile(
    r"(?P<sign>-?)(?:(?P<name>U?R\d+)|U?RZ|SRZ|(?P<bank>c\[.*\])|(?P<number>0x[0-9a-f]+|\d+))(?:\.reuse)?"
)
_BANK_0 = re.compile(r"c\[0x0\]\[(?:(0x[0-9a-f]+)|RZ)\]")
"""`c[0x0][RZ]` is how nvdisasm prints the first word, blockDim.x on sm_90 and older."""
_NO_SUMS = {"X", "HI", "U8", "S8", "U16", "S16"}
"""Modifiers of instructions that give the upper word of a result, or read less than a word."""


class _Form(Struct, frozen=True, kw_only=True):
    """What an operand says: a register, a word at an offset in constant bank 0, or what it holds by itself."""

    register: str | None
    offset: int | None
    held: Sum
    negative: bool


class SumReader:
    """Reads operands as sums, with what registers hold and known bytes of constant bank 0."""

    def __init__(self, state: Mapping[str, Sum], constants: Mapping[int, int]) -> None:
        self._state, self._constants = state, constants

    def register(self, name: str) -> Sum:
        """Return what a register or a predicate holds."""
        return self._state.get(name, at_start(name))

    def word(self, operand: str) -> Sum | None:
        """Return an operand, the lower word of a longer one; None for forms that are no sums."""
        form = _form_of(operand)
        if form is None:
            return None
        held = self.register(form.register) if form.register else form.held
        if form.offset is not None and all(form.offset + index in self._constants for index in range(4)):
            known = bytes(self._constants[form.offset + index] for index in range(4))
            held = Sum(int.from_bytes(known, "little"))
        return ZERO.plus(held, -1) if form.negative else held

    def address(self, operand: str) -> Sum | None:
        """Return the address between brackets: `desc[UR4][R2.64+UR8+0x10]`."""
        terms = address_terms(operand)
        where: Sum | None = ZERO if terms is not None else None
        for register, kinds, number in terms or ():
            held = self.word(register) if register else Sum(number % WORD)
            times = next((int(kind[1:]) for kind in kinds if kind.startswith("X")), 1)
            where = where.plus(held, times) if where is not None and held is not None else None
        return where


@lru_cache(maxsize=1 << 16)
def _form_of(operand: str) -> _Form | None:
    match = _OPERAND.fullmatch(operand)
    if match is None:
        return None
    offset = bank_offset(match["bank"] or "")
    bank = match["bank"] if offset is None else f"c[0x0][{offset:#x}]"
    return _Form(
        register=match["name"],
        offset=offset,
        held=Sum(0, ((bank, 1),)) if bank else Sum(int(match["number"] or "0", 0) % WORD),
        negative=bool(match["sign"]),
    )


def bank_offset(operand: str) -> int | None:
    """Return the offset in constant bank 0 that an operand reads; None for others."""
    match = _BANK_0.fullmatch(operand)
    return int(match[1] or "0", 16) if match else None


def at_start(name: str) -> Sum:
    """Return what a register holds that nothing was written to."""
    return Sum(0, ((f"{START}{name}", 1),))


def result_of(instruction: Instruction, reader: SumReader, product: Product) -> Sum | None:
    """Return what an instruction writes to its first register, where that is a sum of what it reads, or a product."""
    if instruction.name == "HFMA2":
        packed = packed_halves(instruction)
        return Sum(packed) if packed is not None else None
    adding = _adding(instruction.operation)
    if adding is None:
        return None
    read = [held for held in map(reader.word, adding.operands) if held is not None]
    return adding.rule(read, adding.modifiers, product) if read and len(read) == len(adding.operands) else None


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


class _Adding(NamedTuple):
    """How an operation adds up what it reads."""

    rule: Callable[[Sequence[Sum], Collection[str], Product], Sum | None]
    modifiers: Sequence[str]
    operands: Sequence[str]


@lru_cache(maxsize=1 << 16)
def _adding(operation: Operation) -> _Adding | None:
    """Return how an operation adds; None for one that gives no sum."""
    rule = _RULES.get(operation.name) or _RULES.get(operation.name.removeprefix("U"))
    _, *modifiers = operation.opcode.split(".")
    if rule is None or not _NO_SUMS.isdisjoint(modifiers):
        return None
    read = sources(Instruction.at(0, operation))
    return _Adding(rule, modifiers, [operand for operand in read if not _PREDICATE.fullmatch(operand)])
