"""ELF files made byte by byte: of hosts and of CUDA, true and hostile."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

X86_64, AARCH64, CUDA = 62, 183, 190


class Content(NamedTuple):
    """A section: its name, bytes, and fields of its header."""

    name: str
    content: bytes = b""
    kind: int = 1
    info: int = 0
    link: int = 0
    size: int | None = None


def elf_file(machine: int, sections: Sequence[Content], *, flags: int = 0x5A055A, abi: int = 7) -> bytes:
    """An ELF file of these sections from 1 on, behind an empty one; the names of sections are the last."""
    names = b"\0" + b"".join(section.name.encode() + b"\0" for section in sections) + b".shstrtab\0"
    held = [*sections, Content(".shstrtab", names, kind=3)]
    body, headers = b"", [bytes(64)]
    name = 1
    for section in held:
        size = len(section.content) if section.size is None else section.size
        fields = (name, section.kind, 0, 0, 64 + len(body), size, section.link, section.info, 8, 0)
        headers.append(struct.pack("<IIQQQQIIQQ", *fields))
        body += section.content + bytes(-len(section.content) % 8)
        name += len(section.name) + 1
    heading = (2, machine, 1, 0, 0, 64 + len(body), flags, 64, 0, 0, 64, len(headers), len(headers) - 1)
    return (
        b"\x7fELF\2\1\1\x33"
        + bytes([abi])
        + bytes(7)
        + struct.pack("<HHIQQQIHHHHHH", *heading)
        + body
        + b"".join(headers)
    )


def symbol(name: int, section: int, *, value: int = 0, size: int = 0, entry: bool = True) -> bytes:
    """A function's symbol, of a kernel or not."""
    return struct.pack("<IBBHQQ", name, 0x12, 0x10 if entry else 0, section, value, size)


def attribute(number: int, value: bytes) -> bytes:
    """An attribute of `.nv.info` whose value has a length."""
    return struct.pack("<BBH", 4, number, len(value)) + value


KERNEL = Content(".text.kernel", bytes(range(128)), info=24 << 24 | 1)


def cubin_file(
    *more: Content,
    symbols: bytes | None = None,
    names: bytes = b"\0kernel\0",
    info: bytes = b"",
    kernel: Content = KERNEL,
) -> bytes:
    """A cubin for sm_90 with one kernel called kernel, of eight instructions; `symbols` instead of its own."""
    table = bytes(24) + symbol(1, 3, size=128) if symbols is None else symbols
    sections = (
        Content(".strtab", names, kind=3),
        Content(".symtab", table, kind=2, link=1),
        kernel,
        Content(".nv.info.kernel", info, kind=0x70000000, info=3),
    )
    return elf_file(CUDA, (*sections, *more))
