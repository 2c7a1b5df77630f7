"""What the 128-bit words of instructions tell without a disassembler, as they are from Volta to Blackwell."""

from __future__ import annotations

from typing import NamedTuple

from gpuprof.code.binary.elf import INSTRUCTION_BYTES, instruction_word

_OPCODE = 0xFFF
_MOV_OF_REGISTER, _NOP = 0x202, 0x918
_TARGET, _OPERAND = 16, 32
"""Bits at which the numbers of a move's registers begin."""
_REGISTER = 0xFF


class Moves(NamedTuple):
    """How many instructions there are, without padding, and how many of them move a register onto itself."""

    onto_itself: int
    instructions: int


def moves_of(code: bytes) -> Moves:
    """Count the moves of a register onto itself in machine code of 16 bytes an instruction; bytes beyond are left."""
    encoded = [instruction_word(code, at) or 0 for at in range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES)]
    known = [word for word in encoded if word & _OPCODE not in (0, _NOP)]
    return Moves(sum(map(_moves_onto_itself, known)), len(known))


def _moves_onto_itself(word: int) -> bool:
    return word & _OPCODE == _MOV_OF_REGISTER and word >> _TARGET & _REGISTER == word >> _OPERAND & _REGISTER
