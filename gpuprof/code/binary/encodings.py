"""What the 128-bit words of instructions tell without a disassembler, as they are from Volta to Blackwell."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_OPCODE = 0xFFF
_MOV_OF_REGISTER, _NOP, _BRA = 0x202, 0x918, 0x947
_KIND, _MUFU = 0x1FF, 0x108
"""The bits of the opcode without those of what the operand is: a register, a constant or an immediate."""
_FUNCTION, _FUNCTIONS, _SEEDS_FP64 = 10, 0xF, (6, 7)
"""Where a MUFU tells its function in the upper word: RCP64H and RSQ64H."""
_TARGET, _OPERAND = 16, 32
"""Bits at which the numbers of a move's registers begin."""
_REGISTER = 0xFF
_HALVES = struct.Struct("<QQ")
"""An instruction as two words."""


class Moves(NamedTuple):
    """How many instructions there are, without padding, and how many of them move a register onto itself."""

    onto_itself: int
    instructions: int


def moves_of(code: bytes) -> Moves:
    """Count the moves of a register onto itself in machine code of 16 bytes an instruction; bytes beyond are left."""
    lower = [word for word, _ in _words(code)]
    onto_itself = sum(_moves_onto_itself(word) for word in lower if word & _OPCODE == _MOV_OF_REGISTER)
    return Moves(onto_itself, sum(word & _OPCODE not in (0, _NOP) for word in lower))


def fp64_seeds_of(code: bytes) -> tuple[int, ...]:
    """Return the offsets of the instructions that FP64 divisions and square roots begin with."""
    return tuple(
        number * _HALVES.size
        for number, (lower, upper) in enumerate(_words(code))
        if lower & _KIND == _MUFU and upper >> _FUNCTION & _FUNCTIONS in _SEEDS_FP64
    )


def is_padding(code: bytes) -> bool:
    """Tell whether no instruction of this code does anything: what fills up the end of a function."""
    return all(word & _OPCODE in (0, _NOP, _BRA) for word, _ in _words(code))


def _words(code: bytes) -> Iterator[tuple[int, int]]:
    return _HALVES.iter_unpack(memoryview(code)[: len(code) // _HALVES.size * _HALVES.size])


def _moves_onto_itself(move: int) -> bool:
    return move >> _TARGET & _REGISTER == move >> _OPERAND & _REGISTER
