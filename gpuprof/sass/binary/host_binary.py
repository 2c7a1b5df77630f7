"""Finds the device code in a file: a program, library or object file, an archive of them, or device code itself.

Only the parts that are asked for are read: libraries of PyTorch have gigabytes.
"""

from __future__ import annotations

import os
import stat
import struct
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gpuprof.errors import DamagedInput, InputError
from gpuprof.sass.binary.elf import ELF_START, MACHINE_CUDA, Elf, ElfSection, FilePart, read_elf
from gpuprof.sass.binary.fatbin import FATBIN_START

BinaryKind = Literal["cubin", "fatbin", "host ELF", "archive", "thin archive", "Windows program", "macOS program"]

_ARCHIVE, _THIN = b"!<arch>\n", b"!<thin>\n"
_STARTS: tuple[tuple[bytes, BinaryKind], ...] = (
    (FATBIN_START, "fatbin"),
    (_ARCHIVE, "archive"),
    (_THIN, "thin archive"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "macOS program"),
    (b"\xca\xfe\xba\xbe", "macOS program"),
)
_START_BYTES, _MACHINE_AT = 64, 18
_LINKED, _TO_LINK = b".nv_fatbin", b"__nv_relfatbin"
_ON_LINUX = "extract its code where it was built and check that: cuobjdump -xelf all FILE"
_MEMBER_BYTES = 60
_MEMBER_END = b"`\n"
_LONGEST_NAME = 2**16
_MOST_MEMBERS = 200_000


class DeviceCode(Struct, frozen=True):
    """A cubin, or a fat binary of one or more containers. `member` names the member of an archive, else is empty."""

    member: str
    form: Literal["cubin", "fatbin"]
    part: FilePart


def binary_kind(start: bytes) -> BinaryKind | None:
    """Tell what a file is by its first 64 bytes; None for what is none of these, such as text."""
    if start.startswith(ELF_START):
        return "cubin" if start[_MACHINE_AT : _MACHINE_AT + 2] == struct.pack("<H", MACHINE_CUDA) else "host ELF"
    return next((kind for magic, kind in _STARTS if start.startswith(magic)), None)


def device_code(path: Path) -> Iterator[DeviceCode]:
    """Yield the device code of a file, in its order. Its bytes are read when asked for, also later.

    Raises InputError for a file that has none, or is of a kind that is not read, and DamagedInput for a broken one.
    """
    data = _OpenFile(path)
    kind = binary_kind(data[:_START_BYTES])
    if kind is None:
        raise InputError(f"{path} is not a cubin, fat binary, object file, program, library or archive")
    if kind == "thin archive":
        raise InputError(
            f"{path} is a thin archive, which only names its members", "check the object files, or make it with ar rc"
        )
    if kind in ("Windows program", "macOS program"):
        raise InputError(f"{path} is a {kind}; only files for Linux are read", _ON_LINUX)
    whole = FilePart(data, 0, len(data))
    empty = True
    for code in _members(whole) if kind == "archive" else _code("", whole):
        empty = False
        yield code
    if empty:
        raise InputError(f"{path} has no CUDA code", "check the object file or library that its kernels are in")


class _OpenFile:
    """A file of which parts are read when asked for; it is closed with this."""

    __slots__ = ("__weakref__", "_handle", "_size")

    def __init__(self, path: Path) -> None:
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise InputError(f"{path} is not a regular file")
            self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        weakref.finalize(self, os.close, self._handle)
        self._size = os.fstat(self._handle).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> bytes:
        first, last, _ = part.indices(self._size)
        os.lseek(self._handle, first, os.SEEK_SET)
        pieces = []
        while last > first and (piece := os.read(self._handle, min(last - first, 2**30))):
            pieces.append(piece)
            first += len(piece)
        return b"".join(pieces)


def _code(member: str, part: FilePart) -> Iterator[DeviceCode]:
    """Yield what a file or member has; nothing of one of another kind."""
    kind = binary_kind(part[:_START_BYTES])
    if kind in ("cubin", "fatbin"):
        yield DeviceCode(member, kind, part)
    elif kind == "host ELF":
        for held in _fat_binaries(member, part):
            yield DeviceCode(member, "fatbin", held)


def _fat_binaries(member: str, part: FilePart) -> Iterator[FilePart]:
    """Yield where the fat binaries are; those that are to be linked only where there are no others, as cuobjdump."""
    name = f"the member {member!r:.200} of the archive" if member else "the program"
    try:
        elf = read_elf(part)
    except ValueError as error:
        raise DamagedInput(f"{name} cannot be read: {error}") from error
    linked, to_link = (_sections(elf, start) for start in (_LINKED, _TO_LINK))
    for section in linked or to_link:
        if section.offset + section.size > len(part):
            raise DamagedInput(f"{name} is truncated: it ends before its fat binaries do")
        yield FilePart(part, section.offset, section.size)


def _sections(elf: Elf, name: bytes) -> list[ElfSection]:
    return [section for section in elf.sections if elf.starts(section, name + b"\0") and section.has_bytes]


def _members(archive: FilePart) -> Iterator[DeviceCode]:
    """Yield the code of the members of an archive of ar, with the long names of GNU and of BSD."""
    at, names = len(_ARCHIVE), b""
    for _ in range(_MOST_MEMBERS):
        header = archive[at : at + _MEMBER_BYTES]
        if not header.strip(b"\n\0"):
            return
        size = header[48:58].strip()
        if len(header) < _MEMBER_BYTES or header[58:] != _MEMBER_END or not size.isdigit():
            raise DamagedInput(f"the archive has no member at byte {at:,}")
        start, size_bytes = at + _MEMBER_BYTES, int(size)
        if start + size_bytes > archive.size:
            raise DamagedInput(f"the archive is truncated: it ends within the member at byte {at:,}")
        at = start + size_bytes + size_bytes % 2
        name = header[:16].rstrip()
        if name == b"//":
            names = archive[start : start + size_bytes]
        elif name not in (b"/", b"/SYM64/"):
            yield from _code(*_named(name, names, FilePart(archive, start, size_bytes)))
    raise DamagedInput(f"the archive has more than {_MOST_MEMBERS:,} members")


def _named(name: bytes, names: bytes, part: FilePart) -> tuple[str, FilePart]:
    """Return the name of a member, and its bytes without the name that BSD's ar puts before them."""
    if name.startswith(b"#1/") and name[3:].isdigit():
        length = min(int(name[3:]), part.size)
        name = part[: min(length, _LONGEST_NAME)].rstrip(b"\0")
        part = FilePart(part, length, part.size - length)
    elif name[:1] == b"/" and name[1:].isdigit():
        start = int(name[1:])
        name = names[start : start + _LONGEST_NAME].split(b"\n", 1)[0]
    return name.removesuffix(b"/").decode("utf-8", "replace"), part
