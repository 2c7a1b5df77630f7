"""Splits a fat binary by its own headers: containers one behind the other, each with code for several architectures.

NVIDIA documents neither; the fields are those that nvcc 12 and 13 write for known options. A container has the magic
0xBA55ED50, its version, the size of its header, and that of its entries. An entry has, by offset: kind (0), size of its
header (4), stored size (8), compressed size (16), offset of its further attributes (20), architecture (28), offset and
length of a name (32, 36), flags (40), size when unpacked (56).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.sass.binary.elf import refusing_damage
from gpuprof.sass.binary.file_part import FilePart
from gpuprof.sass.binary.unpacking import unpack_lz4, unpack_zstd

_MAGIC = 0xBA55ED50
FATBIN_START = _MAGIC.to_bytes(4, "little")
EntryKind = Literal["sass", "ptx", "lto", "other"]
"""`sass`: a cubin. `lto`: intermediate code for the linker (`code=lto_80`)."""

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<H2xIQI8xI8xQ8xQ")
_KINDS: dict[int, EntryKind] = {1: "ptx", 2: "sass", 8: "lto"}
_JOINED = 256
"""The kind of an entry that contains several, compressed together (`nvcc --concat`). Its header lists them, with their
offsets and sizes after unpacking."""
_JOINED_COUNT = struct.Struct("<II")
_JOINED_ENTRY = struct.Struct("<H2xIQ4xI4xIIIQ16x")
_FURTHER = struct.Struct("<II")
_LZ4, _ZSTD = 0x2000, 0x8000
_ACCELERATED, _FAMILY = 1 << 20, 1 << 21
_MOST_BYTES = 2**29
"""The most that an entry may have when unpacked. Libraries of 1 GB have cubins of some 10 MB."""
_MOST_JOINED_BYTES = 2**33
"""Limit on the bytes to unpack for such an entry: it is unpacked once for each of its parts."""
_ALIGNMENT = 8


class FatEntry(Struct, frozen=True, kw_only=True):
    """One piece of device code. `target` is such as "sm_90a", of PTX "compute_90".

    `part` is its part of what is stored, unpacked: several may be packed together.
    """

    kind: EntryKind
    target: str
    packing: int
    stored: bytes | FilePart
    size: int
    part: slice = slice(None)

    @property
    def compressed(self) -> bool:
        """Return whether the code is compressed."""
        return bool(self.packing)

    def content(self) -> bytes:
        """Return its cubin or PTX. Raises DamagedInput if it cannot be unpacked."""
        content = bytes(self.stored)
        with refusing_damage("the fat binary"):
            if self.packing & _ZSTD:
                content = unpack_zstd(content, self.size)
            elif self.packing & _LZ4:
                content = unpack_lz4(content, self.size)
        return content[self.part]


def containers(data: bytes | FilePart) -> Iterator[tuple[FatEntry, ...]]:
    """Yield the entries of each container: the code of one source file, for several architectures.

    Raises DamagedInput for bytes that are no container, or a truncated one.
    """
    with refusing_damage("the fat binary"):
        at = 0
        while at < len(data):
            magic, _, header_bytes, size = _CONTAINER.unpack(bytes(data[at : at + _CONTAINER.size]))
            if magic != _MAGIC:
                raise ValueError(f"it has no container at byte {at:,}, but {magic.to_bytes(4, 'little').hex()}")
            end = at + header_bytes + size
            if header_bytes < _CONTAINER.size or end > len(data):
                raise ValueError(f"its container at byte {at:,} ends at {end:,} of {len(data):,}: truncated")
            yield tuple(_entries(data, at + header_bytes, end))
            at = end + -end % _ALIGNMENT


def _entries(data: bytes | FilePart, at: int, end: int) -> Iterator[FatEntry]:
    while at < end:
        kind, header_bytes, size, packed, number, flags, unpacked = _ENTRY.unpack(bytes(data[at : at + _ENTRY.size]))
        start = at + header_bytes
        stop = start + size
        if header_bytes < _ENTRY.size or stop > end:
            raise ValueError(f"its entry at byte {at:,} does not lie within the container")
        packing = flags & (_LZ4 | _ZSTD)
        if packing and unpacked > _MOST_BYTES:
            raise ValueError(f"its entry at byte {at:,} cannot unpack to {unpacked:,} bytes")
        entry = FatEntry(
            kind=_KINDS.get(kind, "other"),
            target=_target(kind, number, flags),
            packing=packing,
            stored=data[start : start + packed] if packing else data[start:stop],
            size=unpacked,
        )
        if kind == _JOINED:
            yield from _joined(entry, bytes(data[at + _ENTRY.size : start]))
        else:
            yield entry
        at = stop


def _target(kind: int, number: int, flags: int) -> str:
    """Return the architecture, with `a` if the code runs on that alone and `f` if it runs on its family."""
    suffix = ""
    if flags & _ACCELERATED:
        suffix = "a"
    elif flags & _FAMILY:
        suffix = "f"
    prefix = "compute" if _KINDS.get(kind) == "ptx" else "sm"
    return f"{prefix}_{number}{suffix}"


def _joined(packed: FatEntry, table: bytes) -> Iterator[FatEntry]:
    """Yield the parts of a joined entry. Its header ends with a table of them, each row padded to 8 bytes."""
    count, end = _JOINED_COUNT.unpack_from(table)
    if count * packed.size > _MOST_JOINED_BYTES:
        raise ValueError(f"its packed entry cannot have {count:,} parts")
    at = _JOINED_COUNT.size
    for _ in range(count):
        kind, start, size, further, number, name, name_size, flags = _JOINED_ENTRY.unpack_from(table, at)
        target = _target(kind, number, flags)
        yield replace(packed, kind=_KINDS.get(kind, "other"), target=target, part=slice(start, start + size))
        length = name + name_size if name_size else 0
        if further:
            length = sum(_FURTHER.unpack_from(table, at + further))
        at += (length + 8) // 8 * 8 if length else _JOINED_ENTRY.size
    if at != end:
        raise ValueError("the table of a packed entry does not add up")
