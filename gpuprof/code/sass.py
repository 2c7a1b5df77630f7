"""Parses SASS as nvdisasm and reports print it into instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]+)\*/\s+(?:(?P<predicate>@!?U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*);"
)
_TARGET = re.compile(r"0x([0-9a-f]+)\s*$")
JUMPS = {"BRA", "JMP"}
_HAVE_TARGET = JUMPS | {"BSSY", "CALL"}
_NEVER = {"@!PT", "@!UPT"}


class Instruction(NamedTuple):
    """One SASS instruction. `operands` as nvdisasm prints them, destination first."""

    address: int
    opcode: str
    operands: tuple[str, ...]
    predicate: str | None

    @property
    def name(self) -> str:
        """Return the opcode without modifiers."""
        return self.opcode.partition(".")[0]

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
        target = self.target
        if target is not None and distance:
            operands = (*operands[:-1], hex(target + distance))
        return self._replace(address=self.address + distance, operands=operands)

    @property
    def target(self) -> int | None:
        """Return the address that it may jump to, or None."""
        if self.name not in _HAVE_TARGET or not self.operands:
            return None
        match = _TARGET.search(self.operands[-1])
        return int(match[1], 16) if match else None


def parse_sass(text: str) -> tuple[Instruction, ...]:
    """Read the output of `nvdisasm --binary`, whose jumps name addresses."""
    return tuple(_instructions(text))


def instruction_of(sass: str, address: int = 0) -> Instruction | None:
    """Read one instruction as a report has it, `@!P0 LDG.E R2, [R4]`; None for what is none."""
    return next(_instructions(f"/*{address:x}*/ {sass};"), None)


def _instructions(text: str) -> Iterator[Instruction]:
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            operands = tuple(part.strip() for part in match["operands"].split(",") if part.strip())
            yield Instruction(int(match["address"], 16), match["opcode"], operands, predicate=match["predicate"])
