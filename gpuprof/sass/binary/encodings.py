"""Reads opcodes from the 128-bit words of instructions, from Volta to Blackwell, without a disassembler."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_OPCODE = 0xFFF
_MOV_OF_REGISTER, _NOP, _BRA, _CGAERRBAR = 0x202, 0x918, 0x947, 0x5AB
_KIND, _MUFU = 0x1FF, 0x108
"""The bits of the opcode without those for the kind of operand: a register, a constant or an immediate."""
_FUNCTION, _FUNCTIONS, _SEEDS_FP64 = 10, 0xF, {6: "MUFU.RCP64H", 7: "MUFU.RSQ64H"}
"""Bits of the upper word with a MUFU's function."""
_SIZE, _SIZES = 9, (".U8", ".S8", ".U16", ".S16", "", ".64", ".128", "")
"""Bits of the upper word with the size of a global memory access."""
_SIZED = frozenset((0x180, 0x181, 0x185, 0x186, 0x1AE))
_COPY, _OF_BLACKWELL, _COPY_SIZE, _COPY_SIZES = 0x1AE, 1 << 19, 10, ("", ".64", ".128", "")
"""From Blackwell on, LDGSTS encodes its size in other bits, and one more bit is set."""
_OPCODES = {
    0x007: "SEL", 0x00C: "ISETP", 0x010: "IADD3", 0x011: "LEA", 0x012: "LOP3", 0x016: "PRMT", 0x017: "IMNMX",
    0x019: "SHF", 0x01C: "PLOP3", 0x020: "FMUL", 0x021: "FADD", 0x023: "FFMA", 0x024: "IMAD", 0x025: "IMAD",
    0x027: "IMAD", 0x028: "DMUL", 0x029: "DADD", 0x02B: "DFMA", 0x030: "HADD2", 0x031: "HFMA2", 0x032: "HMUL2",
    0x036: "VIADD", 0x037: "IMMA", 0x03B: "LDSM", 0x03C: "HMMA", 0x03D: "BMMA", 0x03F: "DMMA", 0x044: "STSM",
    0x07A: "QMMA", 0x105: "F2I", 0x106: "I2F", 0x108: "MUFU", 0x110: "F2F", 0x111: "F2I", 0x112: "I2F", 0x11D: "BAR",
    0x14D: "EXIT", 0x180: "LD", 0x181: "LDG", 0x183: "LDL", 0x184: "LDS", 0x185: "ST", 0x186: "STG", 0x187: "STL",
    0x188: "STS", 0x18A: "ATOM", 0x18B: "ATOM", 0x18C: "ATOMS", 0x18D: "ATOMS", 0x18E: "RED", 0x18F: "CCTL",
    0x192: "MEMBAR", 0x1A2: "ATOM", 0x1A3: "ATOMG", 0x1A6: "REDG", 0x1A8: "ATOMG", 0x1A9: "ATOMG", 0x1AB: "ERRBAR",
    0x1AE: "LDGSTS", 0x1C6: "FENCE", 0x1F0: "HGMMA", 0x1F1: "IGMMA", 0x1F3: "QGMMA",
}  # fmt: skip
"""Opcodes that findings need, named as nvdisasm does for sm_70 to sm_120. RED is REDG from Hopper on."""
_TARGET, _OPERAND = 16, 32
"""Bits at which the numbers of a move's registers begin."""
_REGISTER = 0xFF
_HALVES = struct.Struct("<QQ")
"""An instruction as two words."""


class Moves(NamedTuple):
    """The number of instructions, without padding, and of those that move a register onto itself."""

    onto_itself: int
    instructions: int


def moves_of(code: bytes) -> Moves:
    """Count the moves of a register onto itself in machine code of 16 bytes an instruction."""
    onto_itself = instructions = 0
    for word, _ in _words(code):
        opcode = word & _OPCODE
        instructions += opcode not in (0, _NOP)
        onto_itself += opcode == _MOV_OF_REGISTER and word >> _TARGET & _REGISTER == word >> _OPERAND & _REGISTER
    return Moves(onto_itself, instructions)


def opcodes_of(code: bytes) -> tuple[str, ...]:
    """Return the opcode of each instruction with the modifiers that findings need; empty if it is unknown."""
    return tuple(_opcode(lower, upper) for lower, upper in _words(code))


def _opcode(lower: int, upper: int) -> str:
    kind = lower & _KIND
    # Without this check it would be read as ERRBAR.
    name = _OPCODES.get(kind, "") if lower & _OPCODE != _CGAERRBAR else "CGAERRBAR"
    if kind == _MUFU:
        return _SEEDS_FP64.get(upper >> _FUNCTION & _FUNCTIONS, name)
    if kind == _COPY and upper & _OF_BLACKWELL:
        return name + _COPY_SIZES[upper >> _COPY_SIZE & 3]
    return name + _SIZES[upper >> _SIZE & 7] if kind in _SIZED else name


def is_padding(code: bytes) -> bool:
    """Return whether no instruction of this code does anything, as at the end of a function."""
    return all(word & _OPCODE in (0, _NOP, _BRA) for word, _ in _words(code))


def _words(code: bytes) -> Iterator[tuple[int, int]]:
    return _HALVES.iter_unpack(memoryview(code)[: len(code) // _HALVES.size * _HALVES.size])
