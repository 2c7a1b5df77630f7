"""Reads ELF files (System V ABI, chapter 4): header, sections, symbols and relocations.

Every size and offset in such a file may be wrong, so nothing is copied before it is known to lie within the file.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from msgspec import Struct

from gpuprof.errors import DamagedInput

INSTRUCTION_BYTES = 16
"""The size of every instruction since Volta."""
ELF_START = b"\x7fELF"
MACHINE_CUDA = 190
TEXT = ".text."
"""How the names of sections with the code of kernels begin."""
RELOCATABLE = 1
"""The kind of file that is to be linked."""
SYMBOL_TABLE = 2

_IDENT = ELF_START + b"\x02\x01"
_HEADER = struct.Struct("<8xB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQII16x")
_SYMBOL = struct.Struct("<IBBHQQ")
_WITHOUT_BYTES = frozenset((8, 0x70000007, 0x70000009, 0x7000000A))
"""Kinds of sections without bytes: NOBITS, and global, local and shared memory of cubins that are to be linked."""
_RELOCATIONS = {4: struct.Struct("<QQq"), 9: struct.Struct("<QQ")}
"""The layout of a relocation by the kind of its section, RELA and REL."""
_NAMES_ELSEWHERE = 0xFFFF
"""SHN_XINDEX: the number does not fit and is in the first section header."""
_MOST_SECTIONS, _MOST_NAME_BYTES = 300_000, 2**26
_MOST_SHARED = 8
"""Names may overlap in their table; together they may be this many times as long as the table."""


class Sliceable(Protocol):
    """Bytes, or a file that is read part by part."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...


class FilePart(Struct, frozen=True):
    """A stretch of a file, read when it is sliced."""

    data: Sliceable
    start: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice, /) -> bytes:
        first, last, _ = part.indices(self.size)
        return self.data[self.start + first : self.start + max(first, last)]

    def read(self) -> bytes:
        """Return its bytes. Raises DamagedInput if the file ends before."""
        content = self[:]
        if len(content) != self.size:
            raise DamagedInput("the file is truncated")
        return content


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

    data: Sliceable
    abi_version: int
    kind: int
    machine: int
    flags: int
    sections: tuple[ElfSection, ...]

    def named(self, name: str) -> ElfSection | None:
        """Return the first section of a name."""
        return next((section for section in self.sections if section.name == name), None)

    def content(self, section: ElfSection | None) -> bytes:
        """Return the bytes of a section, none if it is missing. Raises ValueError if the file ends before it does."""
        if section is None or not section.has_bytes:
            return b""
        content = self.data[section.offset : section.offset + section.size]
        if len(content) != section.size:
            raise ValueError("it is truncated")
        return content

    def symbols(self, table: ElfSection) -> tuple[ElfSymbol, ...]:
        """Return the symbols of a table by their numbers. Raises ValueError if a name is broken."""
        strings = _Strings(self.content(self.sections[table.link]))
        symbols = []
        for name, info, *others in _SYMBOL.iter_unpack(_whole_items(self.content(table), _SYMBOL)):
            symbols.append(ElfSymbol(strings.at(name), info & 0xF, *others))
        return tuple(symbols)

    def relocations(self, section: ElfSection) -> Iterator[tuple[int, int, int | None]]:
        """Yield place, number of the symbol, and addend, if the section has some, of each relocation."""
        layout = _RELOCATIONS.get(section.kind)
        if layout is None:
            raise ValueError("its relocations are of an unknown kind")
        for place, info, *addend in layout.iter_unpack(_whole_items(self.content(section), layout)):
            yield place, info >> 32, addend[0] if addend else None


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


def read_elf(data: Sliceable) -> Elf:
    """Read the headers of an ELF file. Raises ValueError if it is none or damaged."""
    head = data[: _HEADER.size]
    if len(head) < _HEADER.size or not head.startswith(_IDENT):
        raise ValueError("not a 64-bit little-endian ELF file")
    abi_version, kind, machine, _, _, _, table, flags, _, _, _, size, count, names = _HEADER.unpack(head)
    sections = _sections(data, table, size, count, names) if table else ()
    return Elf(data, abi_version, kind, machine, flags, sections)


def _sections(data: Sliceable, table: int, size: int, count: int, names: int) -> tuple[ElfSection, ...]:
    if size != _SECTION.size:
        raise ValueError(f"its section headers have {size} bytes instead of {_SECTION.size}")
    first = data[table : table + _SECTION.size]
    if len(first) == _SECTION.size:
        _, _, _, _, _, count_if_large, names_if_large, _ = _SECTION.unpack(first)
        count = count or count_if_large
        names = names_if_large if names == _NAMES_ELSEWHERE else names
    if count > _MOST_SECTIONS:
        raise ValueError(f"it has {count:,} sections; the limit is {_MOST_SECTIONS:,}")
    headers = data[table : table + count * size]
    if len(headers) != count * size:
        raise ValueError("it is truncated within its section headers")
    if names >= count:
        raise ValueError("its names of sections are missing")
    _, _, _, _, start, length, _, _ = _SECTION.unpack_from(headers, names * size)
    if length > _MOST_NAME_BYTES:
        raise ValueError(f"the names of its sections take {length:,} bytes; the limit is {_MOST_NAME_BYTES:,}")
    strings = _Strings(data[start : start + length])
    sections = []
    for name, kind, flags, _, *others in _SECTION.iter_unpack(headers):
        sections.append(ElfSection(strings.at(name), kind, flags, *others))
    return tuple(sections)


def _whole_items(content: bytes, layout: struct.Struct) -> bytes:
    """Return a table without the bytes of a last item that is cut off."""
    return content[: len(content) // layout.size * layout.size]


@contextlib.contextmanager
def refusing_damage(what: str) -> Iterator[None]:
    """Turn the errors of reading a damaged file into DamagedInput."""
    try:
        yield
    except IndexError as error:
        raise DamagedInput(f"{what} cannot be read: it refers to a section or symbol that it does not have") from error
    except (struct.error, ValueError, OverflowError) as error:
        raise DamagedInput(f"{what} cannot be read: {error}") from error


def cubin_elf(cubin: bytes) -> Elf:
    """Read the headers of a cubin. Raises ValueError if it is none or damaged."""
    elf = read_elf(cubin)
    if elf.machine != MACHINE_CUDA:
        raise ValueError("not an ELF file for CUDA")
    return elf
