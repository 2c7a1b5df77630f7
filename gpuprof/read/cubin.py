"""Finds a kernel's machine code in the program that a report embeds, without disassembling it.

A cubin is a 64-bit ELF file; a kernel's instructions, 16 bytes each since Volta, are its section `.text.MANGLED_NAME`.
NVIDIA's disassembler takes some 300 ms to start; looking at an encoding takes none.
"""

from __future__ import annotations

import struct

_INSTRUCTION_BYTES = 16
_MACHINE_CUDA = 190
_NO_BITS = 8
"""The type of a section that has a size and no bytes."""


def kernel_code(cubin: bytes, mangled: str) -> bytes | None:
    """Return the instructions of a kernel; None if this is not a cubin or does not hold that kernel."""
    try:
        return _section(cubin, f".text.{mangled}".encode())
    except (struct.error, IndexError, ValueError):
        return None


def _section(elf: bytes, wanted: bytes) -> bytes | None:
    if elf[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", elf, 0x12)[0] != _MACHINE_CUDA:
        return None
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", elf, table + index * entry_size) for index in range(count)]
    names_offset = sections[names_index][4]
    for name, kind, _flags, _address, offset, size in sections:
        start = names_offset + name
        if elf[start : elf.index(b"\0", start)] == wanted:
            return elf[offset : offset + size] if kind != _NO_BITS else None
    return None


def instruction_word(code: bytes, offset: int) -> int | None:
    """Return the 128-bit instruction at a byte offset; None outside the kernel (a called function, say)."""
    if offset < 0 or offset % _INSTRUCTION_BYTES or offset + _INSTRUCTION_BYTES > len(code):
        return None
    return int.from_bytes(code[offset : offset + _INSTRUCTION_BYTES], "little")
