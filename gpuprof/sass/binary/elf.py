"""Reads ELF files: their header, sections and symbols, and the machine code of a kernel in a cubin, which is one.

Every size and place in such a file may be a lie, so nothing is copied before it is known to lie within the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from msgspec import Struct

from gpuprof.errors import DamagedInput

INSTRUCTION_BYTES = 16
"""The size of every instruction since Volta."""
ELF_START = b"\x7fELF"
MACHINE_CUDA = 190
NO_BITS = 8
"""The type of a section that has a size and no bytes."""
_WITHOUT_BYTES = frozenset((NO_BITS, 0x70000007, 0x70000009, 0x7000000A))
"""With those for global, local and shared memory of cubins that are to be linked."""
RELOCATABLE = 1
"""The kind of file that is to be linked."""
SYMBOL_TABLE = 2

_IDENT = ELF_START + b"\x02\x01"
_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NAMES_ELSEWHERE = 0xFFFF
"""SHN_XINDEX: the number does not fit and stands in the first section header."""
_MOST_SECTIONS = 300_000
_LONGEST_NAME = 2**20
_TEXT = b".text."
_NAMES_TOLD, _LONGEST_TOLD = 5, 200


class Sliceable(Protocol):
    """Bytes, or a file whose parts are read when asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...


class FilePart(Struct, frozen=True):
    """A stretch of some bytes, to be read when asked for, and sliced like bytes itself."""

    data: Sliceable
    start: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice, /) -> bytes:
        first, last, _ = part.indices(self.size)
        return self.data[self.start + first : self.start + max(first, last)]

    def read(self) -> bytes:
        """Return its bytes. Raises DamagedInput where there are fewer."""
        content = self[:]
        if len(content) != self.size:
            raise DamagedInput("the file is truncated")
        return content


class ElfSection(NamedTuple):
    """A section header (System V ABI, chapter 4); `name` is the offset of its name in the names of sections."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int

    @property
    def has_bytes(self) -> bool:
        """Tell whether the file has its content; memory that starts empty has only a size."""
        return self.kind not in _WITHOUT_BYTES


class ElfSymbol(NamedTuple):
    """A symbol; `name` is the offset of its name in its table of strings."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def kind(self) -> int:
        """Return its type: 2 is a function."""
        return self.info & 0xF


class Elf(Struct, frozen=True, kw_only=True):
    """A 64-bit little-endian ELF file. `os_abi` and `abi_version` say, of a cubin, what its flags mean."""

    data: Sliceable
    os_abi: int
    abi_version: int
    kind: int
    machine: int
    flags: int
    names_at: int
    sections: tuple[ElfSection, ...]

    def starts(self, section: ElfSection, start: bytes) -> bool:
        """Tell whether a section's name starts so; a name may be endless, and is not read for it."""
        at = self.names_at + section.name
        return self.data[at : at + len(start)] == start

    def named(self, name: bytes) -> ElfSection | None:
        """Return the first section of a name."""
        return next((section for section in self.sections if self.starts(section, name + b"\0")), None)

    def content(self, section: ElfSection) -> bytes:
        """Return the bytes of a section. Raises ValueError where they are not all there."""
        content = self.data[section.offset : section.offset + section.size] if section.has_bytes else b""
        if len(content) != (section.size if section.has_bytes else 0):
            raise ValueError("it is truncated")
        return content

    def symbols(self, table: ElfSection) -> Iterator[ElfSymbol]:
        """Yield the symbols of a table; the number of each is its place, from 0."""
        content = self.content(table)
        return map(ElfSymbol._make, _SYMBOL.iter_unpack(content[: len(content) // _SYMBOL.size * _SYMBOL.size]))


def read_elf(data: Sliceable) -> Elf:
    """Read the headers of an ELF file. Raises ValueError where it is none, or says what cannot be."""
    head = data[: _HEADER.size]
    if len(head) < _HEADER.size or not head.startswith(_IDENT):
        raise ValueError("not a 64-bit little-endian ELF file")
    fields = _HEADER.unpack(head)
    _, _, _, _, os_abi, abi_version, kind, machine, _, _, _, table, flags, _, _, _, size, count, names = fields
    sections = tuple(_sections(data, table, size, count))
    names = sections[0].link if names == _NAMES_ELSEWHERE and sections else names
    if sections and names >= len(sections):
        raise ValueError("its names of sections are missing")
    return Elf(
        data=data,
        os_abi=os_abi,
        abi_version=abi_version,
        kind=kind,
        machine=machine,
        flags=flags,
        names_at=sections[names].offset if sections else 0,
        sections=sections,
    )


def _sections(data: Sliceable, table: int, size: int, count: int) -> Iterator[ElfSection]:
    if not table:
        return
    if size < _SECTION.size:
        raise ValueError("its section headers are too short")
    if not count:
        first = data[table : table + _SECTION.size]
        count = ElfSection._make(_SECTION.unpack(first)).size if len(first) == _SECTION.size else 0
    if count > _MOST_SECTIONS:
        raise ValueError(f"it has {count:,} sections; the limit is {_MOST_SECTIONS:,}")
    headers = data[table : table + count * size]
    if len(headers) != count * size:
        raise ValueError("it is truncated within its section headers")
    for at in range(0, len(headers), size):
        yield ElfSection._make(_SECTION.unpack_from(headers, at))


def text_at(strings: bytes, start: int) -> bytes:
    """Return the zero-terminated text at an offset of a table of strings. Raises ValueError where there is none."""
    end = strings.find(b"\0", start, start + _LONGEST_NAME)
    if end < 0 or start >= len(strings):
        raise ValueError("a name in it has no end")
    return strings[start:end]


def cubin_elf(cubin: bytes) -> Elf:
    """Read the headers of a cubin. Raises ValueError where it is none."""
    elf = read_elf(cubin)
    if elf.machine != MACHINE_CUDA:
        raise ValueError("not an ELF file for CUDA")
    return elf


def kernel_code(cubin: bytes, entry: str) -> bytes:
    """Return the instructions of a kernel, by its mangled name.

    Raises DamagedInput if this is no cubin, has no such kernel, or ends within its code.
    """
    try:
        elf = cubin_elf(cubin)
        section = elf.named(_TEXT + entry.encode())
        if section is not None and section.has_bytes:
            return elf.content(section)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise DamagedInput(f"the cubin cannot be read: {error}") from error
    raise DamagedInput(f"the cubin has no kernel {entry!r:.200}; it has {_kernels(elf) or 'none'}")


def _kernels(elf: Elf) -> str:
    """Name the first kernels that there are; a hostile file may have thousands, with endless names."""
    places = (elf.names_at + section.name + len(_TEXT) for section in elf.sections if elf.starts(section, _TEXT))
    names = (elf.data[start : start + _LONGEST_TOLD].split(b"\0", 1)[0] for start in places)
    return ", ".join(name.decode("utf-8", "replace") for name in islice(names, _NAMES_TOLD))
