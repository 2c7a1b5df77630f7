"""Which instructions of straight code follow from the result of the first of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from gpuprof.sass.instruction import JUMPS, Instruction, Operation
from gpuprof.sass.operands import named, sources, written

FP64_OPCODES = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_DIVISION_BY_ZERO = "0x33"
"""The truth table by which LOP3 makes the quotient of a division by zero, its last step."""
_INTEGER_STEP = re.compile(r"^U?(?:IMAD|IADD|VIADD|LOP3|SEL|ISETP|IABS|MOV)|^MUFU\.RCP$|^F2I|^I2F|^R2UR")
_LONGEST_QUOTIENT = 16
"""Steps from the divisor as FP32 to the quotient with its sign."""


def dependents(code: Sequence[Instruction]) -> tuple[int, ...]:
    """Return the offsets of the instructions that depend on what the first one writes."""
    tainted = set(written(code[0])) if code else set()
    parts = []
    for instruction in code[1:]:
        if not tainted:
            break
        names = written(instruction)
        if not _read(instruction.operation).isdisjoint(tainted) and not _leaves(instruction):
            parts.append(instruction.address)
            tainted.update(names)
        elif instruction.predicate is None:
            tainted.difference_update(names)
    return tuple(parts)


def quotient_parts(code: Sequence[Instruction]) -> tuple[int, ...]:
    """Return the offsets of what follows from the first instruction, up to the last steps of integer divisions.

    What reads a quotient is no part of it. Where the compiler knows that the divisor is not zero, the last step is
    missing, and the length of the longest chain to a quotient ends it.
    """
    depths = dict.fromkeys(written(code[0]), 0) if code else {}
    parts = []
    for instruction in code[1:]:
        if not depths:
            break
        names = written(instruction)
        read = [depths[name] for name in _read(instruction.operation) if name in depths]
        if read and max(read) < _LONGEST_QUOTIENT and _INTEGER_STEP.match(instruction.opcode):
            parts.append(instruction.address)
            if is_last_step(instruction):
                for name in names:
                    depths.pop(name, None)
            else:
                depths.update(dict.fromkeys(names, max(read) + 1))
        elif instruction.predicate is None:
            for name in names:
                depths.pop(name, None)
    return tuple(parts)


@lru_cache(maxsize=1 << 14)
def _read(operation: Operation) -> frozenset[str]:
    """Return what an instruction reads; of FP64 both registers of a number."""
    instruction = Instruction.at(0, operation)
    names = {name for operand in (*sources(instruction), instruction.predicate or "") for name in named(operand)}
    if instruction.name in FP64_OPCODES:
        names |= {f"R{int(name[1:]) + 1}" for name in names if name.startswith("R")}
    return frozenset(names)


def _leaves(instruction: Instruction) -> bool:
    return instruction.name in JUMPS or instruction.name.startswith(("ST", "RED", "ATOM", "BSYNC", "CALL"))


def is_last_step(instruction: Instruction) -> bool:
    """Tell whether an instruction is the last of an integer division: it gives the result of a division by zero."""
    return instruction.name in {"SEL", "USEL"} or (
        instruction.name in {"LOP3", "ULOP3"} and _DIVISION_BY_ZERO in instruction.operands
    )
