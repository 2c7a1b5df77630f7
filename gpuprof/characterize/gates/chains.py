"""Dependences between the instructions of a loop: early reads, chains, factors that are zero."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, sources
from gpuprof.sass.straight_line import writers_of

_MOVES = {"MOV", "UMOV", "IMAD", "HFMA2", "CS2R"}
_ZERO = re.compile(r"[-|~!]*(?:U?RZ|SRZ|0|0x0)(?:\.\w+)?\|?")


def early_waits(opcodes: Sequence[str], loop: Sequence[Instruction]) -> int:
    """Count the results of these instructions that are read before the last of them is issued."""
    indices = [index for index, instruction in enumerate(loop) if _is_any(instruction, opcodes)]
    return read_by(opcodes, loop[indices[0] : indices[-1] + 1]) if indices else 0


def read_by(opcodes: Sequence[str], code: Sequence[Instruction]) -> int:
    """Count the results of these instructions that later straight-line code reads."""
    read = {index for writers in writers_of(code) for index in writers.values()}
    return sum(_is_any(code[index], opcodes) for index in read)


def carried(opcode: str, loop: Sequence[Instruction]) -> int:
    """Count the independent chains: instructions that read what one of them wrote in the iteration before."""
    chains = 0
    for at, writers in enumerate(writers_of([*loop, *loop]), -len(loop)):
        if at >= 0 and loop[at].is_a(opcode):
            chains += any(index < len(loop) and loop[index].is_a(opcode) for index in writers.values())
    return chains


def zero_factors(opcode: str, loop: Sequence[Instruction], before: Sequence[Instruction]) -> int:
    """Count the multiply instructions of a loop with a factor that is zero: RZ, or a register that was set to zero.

    The factors are the first two sources. `before` is the code in front of the loop, which may set them.
    """
    code = [*before, *loop, *loop]
    zeros = 0
    for at, writers in enumerate(writers_of(code)):
        if at >= len(before) + len(loop) and code[at].is_a(opcode):
            factors = sources(code[at])[:2]
            read = [writers[name] for factor in factors for name in named(factor) if name in writers]
            zeros += any(map(_ZERO.fullmatch, factors)) or any(_sets_zero(code[index]) for index in read)
    return zeros


def _sets_zero(instruction: Instruction) -> bool:
    return instruction.name in _MOVES and all(map(_ZERO.fullmatch, sources(instruction)))


def _is_any(instruction: Instruction, opcodes: Sequence[str]) -> bool:
    return any(map(instruction.is_a, opcodes))
