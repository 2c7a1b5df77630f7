"""Reads ELF files (System V ABI, chapter 4): header, sections, symbols and relocations.

Every size and offset in such a file may be wrong, so nothing is copied before it is known to lie within the file.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.file_part import FilePart

INSTRUCTION_BYTES = 16
"""The size of every instruction since Volta."""
ELF_START = b"\x7fELF"
MACHINE_CUDA = 190
TEXT = ".text."
"""How the names of sections with the code of kernels begin."""
RELOCATABLE = 1
"""The kind of file that is to be linked."""

_SYMBOL_TABLE = 2
_IDENT = ELF_START + b"\x02\x01"
_HEADER = struct.Struct("<8xB7xHH20xQI6xHHH")
_SECTION = struct.Struct("<IIQ8xQQII16x")
_SYMBOL = struct.Struct("<IBBHQQ")
_WITHOUT_BYTES = frozenset((8, 0x70000007, 0x70000009, 0x7000000A))
"""Kinds of sections without bytes: NOBITS, and global, local and shared memory of cubins that are to be linked."""
_RELOCATION, _RELOCATION_WITH_ADDEND = struct.Struct("<QQ"), struct.Struct("<QQ8x")
_NAMES_ELSEWHERE = 0xFFFF
"""SHN_XINDEX: the number does not fit and is in the first section header."""
_MOST_SECTIONS, _MOST_NAME_BYTES = 300_000, 2**26
_MOST_SHARED = 8
"""Names may overlap in their table; together they may be this many times as long as the table."""


class ElfSection(NamedTuple):
    """A section header with its name."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int

    @property
    def has_bytes(self) -> bool:
        """Whether the file has the content; of memory that starts empty it has only the size."""
        return self.kind not in _WITHOUT_BYTES


class ElfSymbol(NamedTuple):
    """A symbol with its name; `kind` 2 is a function, 3 a section."""

    name: str
    kind: int
    other: int
    section: int
    value: int
    size: int


class Elf(NamedTuple):
    """A 64-bit little-endian ELF file."""

    data: bytes | FilePart
    abi_version: int
    kind: int
    machine: int
    flags: int
    sections: tuple[ElfSection, ...]

    def named(self, name: str) -> bytes:
        """Return the content of the first section with this name; empty without one."""
        return self.content(next((section for section in self.sections if section.name == name), None))

    def content(self, section: ElfSection | None) -> bytes:
        """Return the bytes of a section, none if it is missing. Raises ValueError if the file ends before it does."""
        if section is None or not section.has_bytes:
            return b""
        content = bytes(self.data[section.offset : section.offset + section.size])
        if len(content) != section.size:
            raise ValueError("it is truncated")
        return content

    def symbols(self) -> tuple[ElfSymbol, ...]:
        """Return the symbols of the file by their numbers. Raises ValueError if a name is broken."""
        table = next((section for section in self.sections if section.kind == _SYMBOL_TABLE), None)
        if table is None:
            return ()
        strings = _Strings(self.content(self.sections[table.link]))
        symbols = []
        for name, info, *others in _SYMBOL.iter_unpack(self.content(table)):
            symbols.append(ElfSymbol(strings.at(name), info & 0xF, *others))
        return tuple(symbols)

    def relocations(self, section: ElfSection) -> Iterator[tuple[int, int]]:
        """Yield the place and the number of the symbol of each relocation."""
        layout = _RELOCATION_WITH_ADDEND if section.name.startswith(".rela") else _RELOCATION
        for place, info in layout.iter_unpack(self.content(section)):
            yield place, info >> 32


class _Strings:
    """A table of zero-terminated strings."""

    def __init__(self, table: bytes) -> None:
        self._table = table
        self._left = _MOST_SHARED * len(table)

    def at(self, start: int) -> str:
        """Return the text at an offset. Raises ValueError if it has no end, or if the texts take too much memory."""
        end = self._table.find(b"\0", start)
        if end < 0:
            raise ValueError("a name in it has no end")
        self._left -= end - start
        if self._left < 0:
            raise ValueError("its names overlap")
        return self._table[start:end].decode("utf-8", "replace")


def read_elf(data: bytes | FilePart) -> Elf:
    """Read the headers of an ELF file. Raises ValueError if it is none or damaged."""
    head = bytes(data[: _HEADER.size])
    if len(head) < _HEADER.size or not head.startswith(_IDENT):
        raise ValueError("not a 64-bit little-endian ELF file")
    abi_version, kind, machine, table, flags, size, count, names = _HEADER.unpack(head)
    if not table:
        return Elf(data, abi_version, kind, machine, flags, ())
    if size != _SECTION.size:
        raise ValueError(f"its section headers have {size} bytes instead of {_SECTION.size}")
    return Elf(data, abi_version, kind, machine, flags, _sections(data, table, count, names))


def _sections(data: bytes | FilePart, table: int, count: int, names: int) -> tuple[ElfSection, ...]:
    _, _, _, _, count_if_many, names_if_many, _ = _SECTION.unpack(bytes(data[table : table + _SECTION.size]))
    count = count or count_if_many
    if names == _NAMES_ELSEWHERE:
        names = names_if_many
    if count > _MOST_SECTIONS:
        raise ValueError(f"it has {count:,} sections; the limit is {_MOST_SECTIONS:,}")
    fields = list(_SECTION.iter_unpack(bytes(data[table : table + count * _SECTION.size])))
    if len(fields) < count:
        raise ValueError("it is truncated within its section headers")
    _, _, _, start, size, _, _ = fields[names]
    if size > _MOST_NAME_BYTES:
        raise ValueError(f"the names of its sections take {size:,} bytes; the limit is {_MOST_NAME_BYTES:,}")
    strings = _Strings(bytes(data[start : start + size]))
    return tuple(ElfSection(strings.at(name), *others) for name, *others in fields)


def cubin_elf(cubin: bytes) -> Elf:
    """Read the headers of a cubin. Raises ValueError if it is none or damaged."""
    elf = read_elf(cubin)
    if elf.machine != MACHINE_CUDA:
        raise ValueError("not an ELF file for CUDA")
    return elf


@contextlib.contextmanager
def refusing_damage(what: str) -> Iterator[None]:
    """Turn the errors of reading a damaged file into DamagedInput."""
    try:
        yield
    except IndexError as error:
        raise DamagedInput(f"{what} cannot be read: it refers to a section or symbol that it does not have") from error
    except (struct.error, OverflowError) as error:
        raise DamagedInput(f"{what} cannot be read: it is truncated") from error
    except ValueError as error:
        raise DamagedInput(f"{what} cannot be read: {error}") from error
