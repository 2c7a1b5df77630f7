"""Which instructions of straight code depend on the result of the first one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from gpuprof.sass.instruction import JUMPS, Instruction, Operation
from gpuprof.sass.operands import named, sources, written

FP64_OPCODES = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_DIVISION_BY_ZERO = "0x33"
"""The truth table of the LOP3 that makes the quotient of a division by zero, its last step."""
_INTEGER_STEP = re.compile(r"^U?(?:IMAD|IADD|VIADD|LOP3|SEL|ISETP|IABS|MOV)|^MUFU\.RCP$|^F2I|^I2F|^R2UR")
_LONGEST_QUOTIENT = 16
"""Steps from the divisor as FP32 to the quotient with its sign."""
_STORES = ("ST", "RED", "ATOM", "BSYNC", "CALL")


def dependents(code: Sequence[Instruction]) -> tuple[int, ...]:
    """Return the offsets of the instructions that depend on the result of the first one."""
    return _followed(code, lambda _depth, item: item.name not in JUMPS and not item.name.startswith(_STORES))


def quotient_parts(code: Sequence[Instruction]) -> tuple[int, ...]:
    """Return the offsets of the dependents of the first instruction, up to the last steps of integer divisions.

    Readers of a quotient are not parts. If the compiler knows that the divisor is not zero, the last step is missing;
    then the longest chain to a quotient ends it.
    """
    return _followed(
        code,
        lambda depth, item: depth < _LONGEST_QUOTIENT and _INTEGER_STEP.match(item.opcode) is not None,
        is_last_step,
    )


def _followed(
    code: Sequence[Instruction],
    is_step: Callable[[int, Instruction], bool],
    is_last: Callable[[Instruction], bool] = lambda _: False,
) -> tuple[int, ...]:
    """Return the offsets of the steps that depend on the first instruction.

    `is_step` takes the number of steps to the values that an instruction reads. Readers of a last step are no steps.
    """
    depths = dict.fromkeys(written(code[0]), 0) if code else {}
    parts = []
    for instruction in code[1:]:
        if not depths:
            break
        names = written(instruction)
        depth = max((depths[name] for name in _inputs(instruction.operation) & depths.keys()), default=None)
        if depth is not None and is_step(depth, instruction):
            parts.append(instruction.address)
            if not is_last(instruction):
                depths.update(dict.fromkeys(names, depth + 1))
                continue
        elif instruction.predicate is not None:
            continue
        for name in names:
            depths.pop(name, None)
    return tuple(parts)


def is_last_step(instruction: Instruction) -> bool:
    """Return whether an instruction is the last of an integer division: it selects the result of one by zero."""
    if instruction.name in {"SEL", "USEL"}:
        return True
    return instruction.name in {"LOP3", "ULOP3"} and _DIVISION_BY_ZERO in instruction.operands


@lru_cache(maxsize=1 << 14)
def _inputs(operation: Operation) -> frozenset[str]:
    """Return the registers that an instruction depends on, with those of its guard."""
    return registers_read(operation).union(named(operation.predicate or ""))


@lru_cache(maxsize=1 << 14)
def registers_read(operation: Operation) -> frozenset[str]:
    """Return the registers and predicates among the operands; of FP64 both registers of a number."""
    names = names_read(operation)
    if operation.name in FP64_OPCODES:
        return names | {f"R{int(name[1:]) + 1}" for name in names if name.startswith("R")}
    return names


@lru_cache(maxsize=1 << 14)
def names_read(operation: Operation) -> frozenset[str]:
    """Return the registers and predicates that the operands name, without the guard."""
    return frozenset(name for operand in sources(Instruction(0, operation)) for name in named(operand))
