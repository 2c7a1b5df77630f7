"""A cubin without code: for each instruction of a kernel the file and line that it came from, and nothing else.

It is an ELF file with the symbol of the kernel, an empty section in the place of its instructions, and a line table as
DWARF 2 has it (section 6.2 of the standard). NVIDIA's report reader takes source positions from it and finds no SASS.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuprof.read.wire import varint

_HEADER, _SECTION, _SYMBOL, _RELOCATION = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQ"
_CUDA_MACHINE, _OSABI, _ABI_VERSION, _EXECUTABLE = 190, 0x33, 7, 2
_PROGBITS, _SYMTAB, _STRTAB, _NOBITS, _REL = 1, 2, 3, 8, 9
_ALLOCATED_CODE = 0x6
_GLOBAL_FUNCTION, _SECTION_SYMBOL, _STO_ENTRY = 0x12, 0x03, 16
_R_CUDA_64 = 2
INSTRUCTION_BYTES = 16
KERNEL_SYMBOL = 2
"""The number of the kernel in the table of symbols."""

_LINE_BASE, _LINE_RANGE, _OPCODE_BASE = -5, 14, 10
_STANDARD_LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1])
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_END_SEQUENCE, _SET_ADDRESS = b"\0\x01\x01", b"\0\x09\x02"

Position = tuple[str, int]


def cubin(kernel: str, size: int, lines: Mapping[int, Position], sm: int) -> bytes:
    """Return a cubin of one kernel of `size` bytes; `lines` gives file and line by offset from the kernel's start."""
    table, address = _line_table(lines)
    text, strings = f".text.{kernel}", _Strings()
    symbols = (
        bytes(struct.calcsize(_SYMBOL))
        + struct.pack(_SYMBOL, strings.add(text), _SECTION_SYMBOL, 0, 4, 0, 0)
        + struct.pack(_SYMBOL, strings.add(kernel), _GLOBAL_FUNCTION, _STO_ENTRY, 4, 0, size)
    )
    relocation = struct.pack(_RELOCATION, address, KERNEL_SYMBOL << 32 | _R_CUDA_64)
    names = _Strings()
    sections = [
        _Section(names.add(".strtab"), _STRTAB, strings.data),
        _Section(
            names.add(".symtab"), _SYMTAB, symbols, link=1, info=2, align=8, entry_bytes=struct.calcsize(_SYMBOL)
        ),
        _Section(names.add(".debug_line"), _PROGBITS, table),
        _Section(names.add(text), _NOBITS, size, flags=_ALLOCATED_CODE, link=2, info=2, align=128),
        _Section(
            names.add(".rel.debug_line"), _REL, relocation,
            flags=0x40, link=2, info=3, align=8, entry_bytes=struct.calcsize(_RELOCATION),
        ),
    ]  # fmt: skip
    own = names.add(".shstrtab")
    return _elf([*sections, _Section(own, _STRTAB, names.data)], sm)


class _Section(NamedTuple):
    """A section of an ELF file: its content, or its size where it has no bytes in the file."""

    name: int
    kind: int
    content: bytes | int
    flags: int = 0
    link: int = 0
    info: int = 0
    align: int = 1
    entry_bytes: int = 0


class _Strings:
    """A string table; a section of it begins with an empty string."""

    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        """Append a string and return where it lies."""
        place = len(self.data)
        self.data += text.encode() + b"\0"
        return place


def _elf(sections: Sequence[_Section], sm: int) -> bytes:
    """Put the sections behind a header."""
    at = struct.calcsize(_HEADER)
    body, table = b"", bytes(struct.calcsize(_SECTION))
    for name, kind, content, flags, link, info, align, entry_bytes in sections:
        size = content if isinstance(content, int) else len(content)
        table += struct.pack(_SECTION, name, kind, flags, 0, at + len(body), size, link, info, align, entry_bytes)
        body += content if isinstance(content, bytes) else b""
    magic = b"\x7fELF\x02\x01\x01" + bytes([_OSABI, _ABI_VERSION]) + bytes(7)
    flags = 0x500 | sm | sm << 16
    header = struct.pack(
        _HEADER, magic, _EXECUTABLE, _CUDA_MACHINE, 124, 0, 0, at + len(body), flags, at, 0, 0,
        struct.calcsize(_SECTION), len(sections) + 1, len(sections),
    )  # fmt: skip
    return header + body + table


def _line_table(lines: Mapping[int, Position]) -> tuple[bytes, int]:
    """Return the contents of .debug_line, and the offset in them of the address to relocate."""
    files = list(dict.fromkeys(file for file, _ in lines.values()))
    folders = list(dict.fromkeys(file.rpartition("/")[0] for file in files if "/" in file))
    tables = b"".join(folder.encode() + b"\0" for folder in folders) + b"\0"
    for file in files:
        folder, _, name = file.rpartition("/")
        number = folders.index(folder) + 1 if folder else 0
        tables += name.encode() + b"\0" + varint(number) + varint(0) + varint(0)
    head = struct.pack("<BBbBB", 1, 1, _LINE_BASE, _LINE_RANGE, _OPCODE_BASE) + _STANDARD_LENGTHS + tables + b"\0"
    before = struct.pack("<HI", 2, len(head)) + head
    steps = _steps(lines, files)
    address = 4 + len(before) + len(_SET_ADDRESS)
    content = before + _SET_ADDRESS + bytes(8) + steps
    return struct.pack("<I", len(content)) + content, address


def _steps(lines: Mapping[int, Position], files: Sequence[str]) -> bytes:
    """Return the line program: a row for each instruction in address order."""
    out, at, file, line = b"", 0, 1, 1
    for offset in sorted(lines):
        name, number = lines[offset]
        if files.index(name) + 1 != file:
            file = files.index(name) + 1
            out += bytes([_SET_FILE]) + varint(file)
        out += bytes([_ADVANCE_LINE]) + _signed(number - line) + bytes([_ADVANCE_PC]) + varint(offset - at)
        out += bytes([_COPY])
        at, line = offset, number
    return out + bytes([_ADVANCE_PC]) + varint(INSTRUCTION_BYTES) + _END_SEQUENCE


def _signed(value: int) -> bytes:
    """Return a number in signed LEB128."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)
