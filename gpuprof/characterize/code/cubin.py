"""Reads the machine code of a kernel out of a cubin: an ELF file with one `.text.NAME` section per function."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from gpuprof.errors import DamagedInput

_MAGIC = b"\x7fELF\x02\x01"
_NO_BITS = 8


class Section(NamedTuple):
    """A section of an ELF file."""

    name: str
    content: bytes


def kernel_code(cubin: bytes, entry: str) -> bytes:
    """Return the instructions of a kernel. Raises DamagedInput if the cubin is none or has no such kernel."""
    try:
        found = {section.name: section.content for section in _sections(cubin)}
    except (struct.error, ValueError, IndexError) as error:
        raise DamagedInput(f"the cubin cannot be read: {error}") from error
    code = found.get(f".text.{entry}")
    if code is None:
        kernels = ", ".join(name.removeprefix(".text.") for name in found if name.startswith(".text."))
        raise DamagedInput(f"the cubin has no kernel {entry!r}; it has {kernels or 'none'}")
    return code


def _sections(elf: bytes) -> Iterator[Section]:
    """Yield the sections of a 64-bit little-endian ELF file (System V ABI, chapter 4)."""
    if not elf.startswith(_MAGIC):
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + index * size) for index in range(count)]
    texts = headers[names][4]
    for name, kind, _, _, offset, length in headers:
        start = texts + name
        content = b"" if kind == _NO_BITS else elf[offset : offset + length]
        if kind != _NO_BITS and len(content) != length:
            raise ValueError("it is cut short")
        yield Section(elf[start : elf.index(b"\0", start)].decode("utf-8", "replace"), content)
