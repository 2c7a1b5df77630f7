"""Reads the machine code of a kernel out of a cubin: an ELF file with one `.text.NAME` section per function."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from gpuprof.errors import DamagedInput

INSTRUCTION_BYTES = 16
"""The size of every instruction since Volta."""

_IDENT = b"\x7fELF\x02\x01"
_MACHINE_CUDA = 190
_NO_BITS = 8
"""The type of a section that has a size and no bytes."""
_HEADER_BYTES = 64
_TEXT = b".text."
_NAMES_TOLD, _LONGEST_NAME = 5, 200


@dataclass(frozen=True, slots=True)
class _Section:
    """A section; `name` is where its name begins."""

    name: int
    kind: int
    offset: int
    size: int


def kernel_code(cubin: bytes, entry: str) -> bytes:
    """Return the instructions of a kernel, by its mangled name.

    Raises DamagedInput if this is no cubin, has no such kernel, or ends within its code.
    """
    try:
        wanted = _TEXT + entry.encode() + b"\0"
        section = next((section for section in _sections(cubin) if cubin.startswith(wanted, section.name)), None)
        if section is None or section.kind == _NO_BITS:
            raise DamagedInput(f"the cubin has no kernel {entry!r:.200}; it has {_kernels(cubin) or 'none'}")
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise DamagedInput(f"the cubin cannot be read: {error}") from error
    code = cubin[section.offset : section.offset + section.size]
    if len(code) != section.size:
        raise DamagedInput("the cubin cannot be read: it is truncated")
    return code


def instruction_word(code: bytes, offset: int) -> int | None:
    """Return the 128-bit instruction at a byte offset; None outside the kernel (a called function, say)."""
    if offset < 0 or offset % INSTRUCTION_BYTES or offset + INSTRUCTION_BYTES > len(code):
        return None
    return int.from_bytes(code[offset : offset + INSTRUCTION_BYTES], "little")


def _kernels(cubin: bytes) -> str:
    """Name the first kernels that there are; a hostile file may have thousands, with endless names."""
    places = (section.name + len(_TEXT) for section in _sections(cubin) if cubin.startswith(_TEXT, section.name))
    names = (cubin[start : start + _LONGEST_NAME].split(b"\0", 1)[0] for start in places)
    return ", ".join(name.decode("utf-8", "replace") for name in islice(names, _NAMES_TOLD))


def _sections(elf: bytes) -> Iterator[_Section]:
    """Yield the sections of a 64-bit little-endian ELF file for CUDA (System V ABI, chapter 4)."""
    if not elf.startswith(_IDENT) or struct.unpack_from("<H", elf, 0x12)[0] != _MACHINE_CUDA:
        raise ValueError("not a 64-bit ELF file for CUDA")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    if entry_size < _HEADER_BYTES:
        raise ValueError("its section headers are too short")
    headers = [struct.unpack_from("<IIQQQQ", elf, table + index * entry_size) for index in range(count)]
    texts = headers[names][4]
    for name, kind, _flags, _address, offset, size in headers:
        yield _Section(name=texts + name, kind=kind, offset=offset, size=size)
