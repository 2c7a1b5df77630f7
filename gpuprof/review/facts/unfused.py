"""Additions that could be fused with a multiplication."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.review.facts.dependents import names_read
from gpuprof.sass.instruction import JUMPS, Instruction
from gpuprof.sass.operands import written

_ENDS = JUMPS | {"EXIT", "RET", "CALL", "BSYNC", "BAR"}


def fusible_additions(code: Sequence[Instruction], multiply: str, add: str) -> Sequence[Instruction]:
    """Return the additions that are the only readers of a product in the same straight code."""
    readers: dict[str, list[Instruction]] = {}
    """The readers of each register that has a product."""
    additions: dict[int, Instruction] = {}

    def overwrite(registers: Sequence[str]) -> None:
        for register in registers:
            read = readers.pop(register, [])
            if len(read) == 1 and read[0].name == add:
                additions[read[0].address] = read[0]

    for instruction in code:
        for register in readers.keys() & names_read(instruction.operation):
            readers[register].append(instruction)
        results = written(instruction)
        overwrite(results)
        if instruction.name == multiply and results and instruction.predicate is None:
            readers[results[0]] = []
        if instruction.name in _ENDS:
            overwrite(tuple(readers))
    return tuple(additions.values())
