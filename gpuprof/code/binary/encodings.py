"""What the 128-bit words of instructions tell without a disassembler, as they are from Volta to Blackwell."""

from __future__ import annotations

import struct
from typing import NamedTuple

_OPCODE = 0xFFF
_MOV_OF_REGISTER, _NOP = 0x202, 0x918
_TARGET, _OPERAND = 16, 32
"""Bits at which the numbers of a move's registers begin."""
_REGISTER = 0xFF
_HALVES = struct.Struct("<QQ")
"""An instruction as two words: all that is read here is in the lower one."""


class Moves(NamedTuple):
    """How many instructions there are, without padding, and how many of them move a register onto itself."""

    onto_itself: int
    instructions: int


def moves_of(code: bytes) -> Moves:
    """Count the moves of a register onto itself in machine code of 16 bytes an instruction; bytes beyond are left."""
    lower = [word for word, _ in _HALVES.iter_unpack(memoryview(code)[: len(code) // _HALVES.size * _HALVES.size])]
    onto_itself = sum(_moves_onto_itself(word) for word in lower if word & _OPCODE == _MOV_OF_REGISTER)
    return Moves(onto_itself, sum(word & _OPCODE not in (0, _NOP) for word in lower))


def _moves_onto_itself(move: int) -> bool:
    return move >> _TARGET & _REGISTER == move >> _OPERAND & _REGISTER
