"""SASS instructions, parsed from the text of nvdisasm and of reports."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Lock
from typing import TypeVar
from weakref import WeakValueDictionary

_LINE = re.compile(r"^[^\S\n]*/\*([0-9a-f]+)\*/[^\S\n]+(?!\s)([^;\n]*);", re.MULTILINE)
_TEXT = re.compile(r"(?:(?P<predicate>@!?U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)(?![\w.])\s*(?!\s)(?P<operands>[^\n]*)")
_TARGET = re.compile(r"0x([0-9a-f]+)\s*$")
JUMPS = {"BRA", "JMP"}
ENDS = {"EXIT", "RET", "KILL"}
JUMPS_ANYWHERE = {"BRX", "BRXU", "JMX", "JMXU"}
"""Jumps to an address in a register."""
_HAVE_TARGET = JUMPS | {"BSSY", "CALL"}
_NAME_ADDRESSES = _HAVE_TARGET | JUMPS_ANYWHERE | {"RET", "WARPSYNC"}
_NEVER = {"@!PT", "@!UPT"}

_Answer = TypeVar("_Answer")


class Operation:
    """An instruction without its address. There is one object for each text, so that it is its own key in caches."""

    __slots__ = ("__weakref__", "idle", "name", "opcode", "operands", "predicate", "target")

    def __init__(self, opcode: str, operands: tuple[str, ...], predicate: str | None) -> None:
        self.opcode = opcode
        self.operands = operands
        self.predicate = predicate
        self.name = opcode.partition(".")[0]
        self.idle = self.name == "NOP" or predicate in _NEVER
        self.target = _address_in(operands[-1]) if operands and self.name in _HAVE_TARGET else None


_OPERATIONS: WeakValueDictionary[tuple[str, tuple[str, ...], str | None], Operation] = WeakValueDictionary()
_NEW = Lock()


def operation_of(opcode: str, operands: tuple[str, ...], predicate: str | None = None) -> Operation:
    """Return the one operation with this text."""
    key = opcode, operands, predicate
    known = _OPERATIONS.get(key)
    if known is None:
        with _NEW:
            known = _OPERATIONS.setdefault(key, Operation(opcode, operands, predicate))
    return known


class Instruction:
    """One SASS instruction: an operation at an address.

    `operands` are as nvdisasm prints them, the destination first. `name` is the opcode without modifiers. An `idle`
    instruction only fills an issue slot: a NOP, or one whose predicate is never true. `target` is the address that it
    may jump to, or None.
    """

    __slots__ = ("address", "idle", "name", "opcode", "operands", "operation", "predicate", "target")

    def __init__(self, address: int, operation: Operation) -> None:
        self.address = address
        self.operation = operation
        self.opcode = operation.opcode
        self.operands = operation.operands
        self.predicate = operation.predicate
        self.name = operation.name
        self.idle = operation.idle
        self.target = operation.target

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instruction):
            return NotImplemented
        return self.address == other.address and self.operation is other.operation

    def __hash__(self) -> int:
        return hash((self.address, self.operation))

    def __str__(self) -> str:
        guard = f"{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()

    def is_a(self, opcode: str) -> bool:
        """Return whether the opcode begins with these dotted words; with a `$` at the end, whether it equals them."""
        if opcode.endswith("$"):
            return self.opcode == opcode[:-1]
        return self.opcode == opcode or self.opcode.startswith(opcode + ".")

    @property
    def branches_on_divergence(self) -> bool:
        """Return whether the branch is taken if lanes have diverged (BRA.DIV), or if they have not (BRA.CONV)."""
        return self.is_a("BRA.DIV") or self.is_a("BRA.CONV")

    def moved(self, distance: int) -> Instruction:
        """Return the instruction with its address and its jump target moved by some bytes."""
        operation = self.operation
        if self.target is not None:
            operands = (*self.operands[:-1], hex(self.target + distance))
            operation = operation_of(self.opcode, operands, self.predicate)
        return Instruction(self.address + distance, operation)


def once_for_each_operation(function: Callable[[Instruction], _Answer]) -> Callable[[Instruction], _Answer]:
    """Cache a function of an instruction; instructions that differ in their address alone share a result."""

    @lru_cache(maxsize=1 << 16)
    def answer(operation: Operation) -> _Answer:
        return function(Instruction(0, operation))

    @wraps(function)
    def known(instruction: Instruction) -> _Answer:
        return answer(instruction.operation)

    return known


@lru_cache(maxsize=4096)
def _address_in(operand: str) -> int | None:
    match = _TARGET.search(operand)
    return int(match[1], 16) if match else None


def with_addresses_moved(operation: Operation, base: int, distance: int) -> Operation:
    """Return an operation with its code addresses moved. The code was disassembled at a base of 2^40 or more."""
    operands = []
    for operand in operation.operands:
        address = _address_in(operand)
        if address is not None and address >= base // 2:
            operands.append(operand[: operand.rindex("0x")] + hex(address + distance))
        else:
            operands.append(operand)
    return operation_of(operation.opcode, tuple(operands), operation.predicate)


def names_address(operation: Operation, base: int) -> bool:
    """Return whether an operand is a code address: at or after this base, or not far before it."""
    return operation.name in _NAME_ADDRESSES and with_addresses_moved(operation, base, 1) is not operation


def parse_sass(text: str) -> tuple[Instruction, ...]:
    """Parse the output of `nvdisasm --binary`, whose jumps name addresses."""
    instructions = (instruction_of(sass, int(address, 16)) for address, sass in _LINE.findall(text))
    return tuple(filter(None, instructions))


def instruction_of(sass: str, address: int = 0) -> Instruction | None:
    """Parse one instruction of a report, `@!P0 LDG.E R2, [R4]`; None for other text."""
    operation = _operation(sass)
    return Instruction(address, operation) if operation is not None else None


@lru_cache(maxsize=1 << 15)
def _operation(sass: str) -> Operation | None:
    """Parse an instruction; results are cached, because code repeats itself."""
    match = _TEXT.fullmatch(sass.partition(";")[0].strip())
    if match is None:
        return None
    operands = tuple(part.strip() for part in match["operands"].split(",") if part.strip())
    return operation_of(match["opcode"], operands, match["predicate"])
