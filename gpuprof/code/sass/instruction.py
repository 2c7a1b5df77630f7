"""Parses SASS as nvdisasm and reports print it into instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_LINE = re.compile(r"^[^\S\n]*/\*([0-9a-f]+)\*/[^\S\n]+([^;\n]*);", re.MULTILINE)
_TEXT = re.compile(r"(?:(?P<predicate>@!?U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*)")
_TARGET = re.compile(r"0x([0-9a-f]+)\s*$")
JUMPS = {"BRA", "JMP"}
HAVE_TARGET = JUMPS | {"BSSY", "CALL"}
_LEAVE = JUMPS | {"EXIT", "RET", "KILL", "BRX", "BRXU", "JMX", "JMXU"}
_NEVER = {"@!PT", "@!UPT"}


class Instruction(NamedTuple):
    """One SASS instruction. `operands` as nvdisasm prints them, destination first."""

    address: int
    opcode: str
    operands: tuple[str, ...]
    predicate: str | None

    def __str__(self) -> str:
        guard = f"{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()

    @property
    def name(self) -> str:
        """Return the opcode without modifiers."""
        return _name_of(self.opcode)

    @property
    def idle(self) -> bool:
        """Tell whether it only fills an issue slot: a NOP, or predicated never to run."""
        return self.name == "NOP" or self.predicate in _NEVER

    def is_a(self, opcode: str) -> bool:
        """Tell whether the opcode begins with these dotted words; with a `$` at the end, whether it is exactly this."""
        if opcode.endswith("$"):
            return self.opcode == opcode[:-1]
        return self.opcode == opcode or self.opcode.startswith(opcode + ".")

    def moved(self, distance: int) -> Instruction:
        """Return the instruction with its address, and that which it jumps to, moved."""
        operands = self.operands
        if not distance:
            return self
        target = self.target
        if target is not None:
            operands = (*operands[:-1], hex(target + distance))
        return Instruction(self.address + distance, self.opcode, operands, predicate=self.predicate)

    @property
    def target(self) -> int | None:
        """Return the address that it may jump to, or None."""
        if self.name not in HAVE_TARGET or not self.operands:
            return None
        return _address_of(self.operands[-1])


@lru_cache(maxsize=4096)
def _address_of(operand: str) -> int | None:
    match = _TARGET.search(operand)
    return int(match[1], 16) if match else None


@lru_cache(maxsize=4096)
def _name_of(opcode: str) -> str:
    return opcode.partition(".")[0]


def parse_sass(text: str) -> tuple[Instruction, ...]:
    """Read the output of `nvdisasm --binary`, whose jumps name addresses."""
    return tuple(_instructions(text))


def instruction_of(sass: str, address: int = 0) -> Instruction | None:
    """Read one instruction as a report has it, `@!P0 LDG.E R2, [R4]`; None for what is none."""
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
    """Tell whether what stands behind an instruction is only reached by a jump."""
    return instruction.predicate is None and instruction.name in _LEAVE and len(instruction.operands) < 2


def _instructions(text: str) -> Iterator[Instruction]:
    for address, sass in _LINE.findall(text):
        parts = _parts(sass)
        if parts:
            opcode, operands, predicate = parts
            yield Instruction(int(address, 16), opcode, operands, predicate=predicate)


@lru_cache(maxsize=1 << 15)
def _parts(sass: str) -> tuple[str, tuple[str, ...], str | None] | None:
    """Take an instruction apart; code repeats itself."""
    match = _TEXT.fullmatch(sass)
    if match is None:
        return None
    operands = tuple(part.strip() for part in match["operands"].split(",") if part.strip())
    return match["opcode"], operands, match["predicate"]
