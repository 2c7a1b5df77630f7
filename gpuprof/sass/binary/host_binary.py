"""Finds the device code in a file: a program, library or object file, an archive of them, or device code itself.

Only the needed parts are read: libraries of PyTorch have gigabytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from gpuprof.errors import DamagedInput, InputError
from gpuprof.sass.binary.elf import ELF_START, MACHINE_CUDA, read_elf, refusing_damage
from gpuprof.sass.binary.fatbin import FATBIN_START
from gpuprof.sass.binary.file_part import FilePart

BinaryKind = Literal["cubin", "fatbin", "host ELF", "archive", "thin archive", "Windows program", "macOS program"]

_ARCHIVE = b"!<arch>\n"
_STARTS: dict[bytes, BinaryKind] = {
    FATBIN_START: "fatbin",
    _ARCHIVE: "archive",
    b"!<thin>\n": "thin archive",
    b"MZ": "Windows program",
    b"\xcf\xfa\xed\xfe": "macOS program",
    b"\xca\xfe\xba\xbe": "macOS program",
}
_START_BYTES = 64
_MACHINE = slice(18, 20)
_MEMBER_BYTES = 60
_MEMBER_END = b"`\n"
_LONGEST_NAME = 2**16
_MOST_MEMBERS = 200_000


class DeviceCode(NamedTuple):
    """A cubin, or a fat binary of one or more containers; `member` is its name in an archive, else empty."""

    member: str
    form: Literal["cubin", "fatbin"]
    part: FilePart


def binary_kind(start: bytes) -> BinaryKind | None:
    """Return the kind of a file by its first 64 bytes; None for any other, such as text."""
    if start.startswith(ELF_START):
        return "cubin" if start[_MACHINE] == MACHINE_CUDA.to_bytes(2, "little") else "host ELF"
    return next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), None)


def device_code(path: Path) -> Iterator[DeviceCode]:
    """Yield the device code of a file in its order. Its bytes can be read until the generator continues.

    Raises InputError for a file that has none, or is of a kind that is not read, and DamagedInput for a damaged one.
    """
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a regular file")
        file = path.open("rb")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    with file:
        yield from _device_code(FilePart(file, 0, os.fstat(file.fileno()).st_size), path)


def _device_code(data: FilePart, path: Path) -> Iterator[DeviceCode]:
    kind = binary_kind(bytes(data[:_START_BYTES]))
    if kind is None:
        raise InputError(f"{path} is not a cubin, fat binary, object file, program, library or archive")
    if kind == "thin archive":
        raise InputError(
            f"{path} is a thin archive, which only names its members", "check the object files, or make it with ar rc"
        )
    if kind in ("Windows program", "macOS program"):
        raise InputError(
            f"{path} is a {kind}; only files for Linux are read",
            "extract its code on the system that built it and check that: cuobjdump -xelf all FILE",
        )
    is_empty = True
    for member, part in _members(data) if kind == "archive" else (("", data),):
        for code in _code(member, part):
            is_empty = False
            yield code
    if is_empty:
        raise InputError(f"{path} has no CUDA code", "check the object file or library that its kernels are in")


def _code(member: str, part: FilePart) -> Iterator[DeviceCode]:
    """Yield the device code of a file or member; nothing of one of another kind."""
    kind = binary_kind(bytes(part[:_START_BYTES]))
    if kind in ("cubin", "fatbin"):
        yield DeviceCode(member, kind, part)
    elif kind == "host ELF":
        for fat_binary in _fat_binaries(member, part):
            yield DeviceCode(member, "fatbin", fat_binary)


def _fat_binaries(member: str, part: FilePart) -> Iterator[FilePart]:
    """Yield the fat binaries of a program; like cuobjdump, those to be linked only if there are no others."""
    name = f"the member {member!r:.200} of the archive" if member else "the program"
    with refusing_damage(name):
        sections = [section for section in read_elf(part).sections if section.has_bytes]
    linked = [section for section in sections if section.name == ".nv_fatbin"]
    for section in linked or sections:
        if section.name in (".nv_fatbin", "__nv_relfatbin"):
            fat_binary = part[section.offset : section.offset + section.size]
            if len(fat_binary) < section.size:
                raise DamagedInput(f"{name} is truncated: it ends before its fat binaries do")
            yield fat_binary


def _members(archive: FilePart) -> Iterator[tuple[str, FilePart]]:
    """Yield the names and members of an archive of GNU ar."""
    at = len(_ARCHIVE)
    names = b""
    for _ in range(_MOST_MEMBERS):
        header = bytes(archive[at : at + _MEMBER_BYTES])
        if not header.strip(b"\n\0"):
            return
        size = header[48:58].strip()
        if len(header) < _MEMBER_BYTES or header[58:] != _MEMBER_END or not size.isdigit():
            raise DamagedInput(f"the archive has no member at byte {at:,}")
        start = at + _MEMBER_BYTES
        end = start + int(size)
        if end > len(archive):
            raise DamagedInput(f"the archive is truncated: it ends within the member at byte {at:,}")
        name = header[:16].rstrip()
        if name == b"//":
            names = bytes(archive[start:end])
        elif name not in (b"/", b"/SYM64/"):
            yield _member_name(name, names), archive[start:end]
        at = end + end % 2
    raise DamagedInput(f"the archive has more than {_MOST_MEMBERS:,} members")


def _member_name(name: bytes, names: bytes) -> str:
    """Return the name of a member; a long one is in the table of names."""
    if name[:1] == b"/" and name[1:].isdigit():
        start = int(name[1:])
        name = names[start : start + _LONGEST_NAME].split(b"\n", 1)[0]
    return name.removesuffix(b"/").decode("utf-8", "replace")
