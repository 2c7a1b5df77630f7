"""The bytes of a file for those who look at few of them: small files in memory, large ones read where asked."""

from __future__ import annotations

import hashlib
import os
import weakref
from pathlib import Path
from typing import IO, BinaryIO, Protocol

LARGE = 32 * 2**20
"""Files from this size on are not held in memory."""
_PIECE = 2**20


class Bytes(Protocol):
    """What can be sliced like bytes."""

    def __len__(self) -> int:
        """Return the number of bytes."""
        ...

    def __getitem__(self, part: slice, /) -> bytes:
        """Return a part of the bytes."""
        ...


def kept(path: Path, data: bytes) -> Bytes:
    """Return what stands for a file's bytes from now on; a large file is kept open and not held in memory.

    If a large file is overwritten meanwhile, its parts no longer parse and count as not recorded.
    """
    if len(data) < LARGE:
        return data
    try:
        return _OpenFile(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), len(data))
    except OSError:
        return data


def kept_open(file: IO[bytes], data: bytes) -> Bytes:
    """Do the same for the bytes of a file that is open and may have no name; the caller may close it."""
    if len(data) < LARGE:
        return data
    try:
        return _OpenFile(os.dup(file.fileno()), len(data))
    except OSError:
        return data


def digest_of(file: BinaryIO) -> str:
    """Return the SHA-256 of what is left of a file, which may be larger than memory."""
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


class _OpenFile:
    """A file whose parts are read when asked for; it is closed with this."""

    __slots__ = ("__weakref__", "_handle", "_size")

    def __init__(self, handle: int, size: int) -> None:
        self._handle = handle
        self._size = size
        weakref.finalize(self, os.close, self._handle)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> bytes:
        first, last, _ = part.indices(self._size)
        os.lseek(self._handle, first, os.SEEK_SET)
        wanted, pieces = last - first, []
        while wanted > 0:
            piece = os.read(self._handle, min(wanted, 2**30))
            if not piece:
                break
            pieces.append(piece)
            wanted -= len(piece)
        return b"".join(pieces)
