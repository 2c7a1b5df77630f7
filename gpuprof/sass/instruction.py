"""Parses SASS as nvdisasm and reports print it into instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from threading import Lock
from weakref import WeakValueDictionary

_LINE = re.compile(r"^[^\S\n]*/\*([0-9a-f]+)\*/[^\S\n]+(?!\s)([^;\n]*);", re.MULTILINE)
_TEXT = re.compile(r"(?:(?P<predicate>@!?U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)(?![\w.])\s*(?!\s)(?P<operands>[^;]*)")
_TARGET = re.compile(r"0x([0-9a-f]+)\s*$")
JUMPS = {"BRA", "JMP"}
HAVE_TARGET = JUMPS | {"BSSY", "CALL"}
_LEAVE = JUMPS | {"EXIT", "RET", "KILL", "BRX", "BRXU", "JMX", "JMXU"}
_NAME_ADDRESSES = HAVE_TARGET | {"RET", "BRX", "BRXU", "JMX", "JMXU", "WARPSYNC"}
_NEVER = {"@!PT", "@!UPT"}


class Operation:
    """What an instruction says, wherever it stands: there is no other with the same opcode, operands and predicate.

    So that it is its own key: what follows from it alone need be worked out once.
    """

    __slots__ = ("__weakref__", "idle", "name", "opcode", "operands", "predicate", "target")

    opcode: str
    operands: tuple[str, ...]
    predicate: str | None
    name: str
    idle: bool
    target: int | None

    def __init__(self, opcode: str, operands: tuple[str, ...], predicate: str | None) -> None:
        self.opcode, self.operands, self.predicate = opcode, operands, predicate
        self.name = opcode.partition(".")[0]
        self.idle = self.name == "NOP" or predicate in _NEVER
        self.target = _address_of(operands[-1]) if operands and self.name in HAVE_TARGET else None


_OPERATIONS: WeakValueDictionary[tuple[str, tuple[str, ...], str | None], Operation] = WeakValueDictionary()


_NEW = Lock()


def operation_of(opcode: str, operands: tuple[str, ...], predicate: str | None) -> Operation:
    """Return the one operation that says this."""
    key = opcode, operands, predicate
    known = _OPERATIONS.get(key)
    if known is None:
        with _NEW:
            known = _OPERATIONS.setdefault(key, Operation(opcode, operands, predicate))
    return known


class Instruction:
    """One SASS instruction: an operation at an address. `operands` as nvdisasm prints them, destination first.

    `name` is the opcode without modifiers; `idle` means that it only fills an issue slot, as a NOP or predicated never
    to run; `target` is the address that it may jump to, or None.
    """

    __slots__ = ("address", "idle", "name", "opcode", "operands", "operation", "predicate", "target")

    address: int
    operation: Operation
    opcode: str
    operands: tuple[str, ...]
    predicate: str | None
    name: str
    idle: bool
    target: int | None

    def __init__(self, address: int, opcode: str, operands: tuple[str, ...], predicate: str | None) -> None:
        self._fill(address, operation_of(opcode, operands, predicate))

    def _fill(self, address: int, operation: Operation) -> None:
        self.address, self.operation = address, operation
        self.opcode, self.operands, self.predicate = operation.opcode, operation.operands, operation.predicate
        self.name, self.idle, self.target = operation.name, operation.idle, operation.target

    @classmethod
    def at(cls, address: int, operation: Operation) -> Instruction:
        """Return an operation at an address."""
        instruction = cls.__new__(cls)
        instruction._fill(address, operation)
        return instruction

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instruction):
            return NotImplemented
        return self.address == other.address and self.operation is other.operation

    def __hash__(self) -> int:
        return hash((self.address, self.operation))

    def __repr__(self) -> str:
        return f"Instruction({self.address:#x}, {str(self)!r})"

    def __str__(self) -> str:
        guard = f"{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()

    def __reduce__(self) -> tuple[type[Instruction], tuple[int, str, tuple[str, ...], str | None]]:
        return Instruction, (self.address, self.opcode, self.operands, self.predicate)

    def is_a(self, opcode: str) -> bool:
        """Return whether the opcode begins with these dotted words; with a `$` at the end, whether it is this."""
        if opcode.endswith("$"):
            return self.opcode == opcode[:-1]
        return self.opcode == opcode or self.opcode.startswith(opcode + ".")

    def moved(self, distance: int) -> Instruction:
        """Return the instruction with its address, and that which it jumps to, moved."""
        if not distance:
            return self
        if self.target is None:
            return Instruction.at(self.address + distance, self.operation)
        operands = (*self.operands[:-1], hex(self.target + distance))
        return Instruction(self.address + distance, self.opcode, operands, predicate=self.predicate)


@lru_cache(maxsize=4096)
def _address_of(operand: str) -> int | None:
    match = _TARGET.search(operand)
    return int(match[1], 16) if match else None


def with_addresses_moved(operation: Operation, base: int, distance: int) -> Operation:
    """Return an operation with the addresses that it names moved, of code that was read at a base of 2^40 or more."""
    operands = tuple(_moved_operand(operand, base, distance) for operand in operation.operands)
    return operation_of(operation.opcode, operands, operation.predicate)


def names_address(operation: Operation, base: int) -> bool:
    """Return whether an operand is an address of code at this base: one of it, or not far before it."""
    return operation.name in _NAME_ADDRESSES and with_addresses_moved(operation, base, 1) is not operation


def _moved_operand(operand: str, base: int, distance: int) -> str:
    match = _TARGET.search(operand)
    number = int(match[1], 16) if match else 0
    return operand[: match.start()] + hex(number + distance) if match and number >= base // 2 else operand


def parse_sass(text: str) -> tuple[Instruction, ...]:
    """Read the output of `nvdisasm --binary`, whose jumps name addresses."""
    return tuple(_instructions(text))


def instruction_of(sass: str, address: int = 0) -> Instruction | None:
    """Read one instruction as a report has it, `@!P0 LDG.E R2, [R4]`; None for other text."""
    return next(_instructions(f"/*{address:x}*/ {sass};"), None)


def without_padding(code: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Return code without what compilers fill up its end with: NOPs, behind a branch to itself that nothing reaches."""
    end = len(code)
    while end and code[end - 1].name == "NOP":
        end -= 1
    if end > 1 and _waits_forever(code[end - 1]) and _leaves(code[end - 2]):
        end -= 1
    return code[:end]


def _waits_forever(instruction: Instruction) -> bool:
    return instruction.name == "BRA" and instruction.predicate is None and instruction.target == instruction.address


def _leaves(instruction: Instruction) -> bool:
    """Return whether the next instruction is only reached by a jump."""
    return instruction.predicate is None and instruction.name in _LEAVE and len(instruction.operands) < 2


def _instructions(text: str) -> Iterator[Instruction]:
    for address, sass in _LINE.findall(text):
        operation = _operation(sass)
        if operation is not None:
            yield Instruction.at(int(address, 16), operation)


@lru_cache(maxsize=1 << 15)
def _operation(sass: str) -> Operation | None:
    """Take an instruction apart; code repeats itself."""
    match = _TEXT.fullmatch(sass)
    if match is None:
        return None
    operands = tuple(part.strip() for part in match["operands"].split(",") if part.strip())
    return operation_of(match["opcode"], operands, match["predicate"])
