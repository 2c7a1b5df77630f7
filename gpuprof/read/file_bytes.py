"""The bytes of a file for those who look at few of them: small files in memory, large ones read where asked."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import IO, BinaryIO, Protocol

LARGE = 32 * 2**20
"""Files from this size on are not held in memory."""
_PIECE = 2**20
_MOST_READ = 2**30


class Bytes(Protocol):
    """What can be sliced like bytes."""

    def __len__(self) -> int:
        """Return the number of bytes."""
        ...

    def __getitem__(self, part: slice, /) -> bytes:
        """Return a part of the bytes."""
        ...


def bytes_of(file: IO[bytes]) -> Bytes:
    """Return the bytes of an open file; a large one stays open, and is read where it is asked. The caller may close it.

    If a large file is overwritten meanwhile, its parts no longer parse.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size < LARGE:
        return file.read()
    return _OpenFile(os.dup(file.fileno()), size)


def digest_of(file: BinaryIO) -> str:
    """Return the SHA-256 of what is left of a file, which may be larger than memory."""
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


class Digest:
    """The SHA-256 of a file; that of a large one is computed while others read it."""

    __slots__ = ("_data", "_result", "_thread")

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._result = ""
        self._thread: threading.Thread | None = None
        if len(data) >= LARGE:
            self._thread = threading.Thread(target=self._compute, daemon=True)
            self._thread.start()

    def result(self) -> str:
        """Return the digest in hexadecimal."""
        if self._thread is not None:
            self._thread.join()
        elif not self._result:
            self._compute()
        return self._result

    def _compute(self) -> None:
        digest = hashlib.sha256()
        for at in range(0, len(self._data), _PIECE):
            digest.update(self._data[at : at + _PIECE])
        self._result = digest.hexdigest()


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
        if last - first <= _MOST_READ:
            piece = _read_at(self._handle, max(0, last - first), first)
            if len(piece) == last - first:
                return piece
        pieces = []
        while first < last:
            piece = _read_at(self._handle, min(last - first, _MOST_READ), first)
            if not piece:
                break
            pieces.append(piece)
            first += len(piece)
        return b"".join(pieces)


if hasattr(os, "pread"):
    _read_at = os.pread
else:  # pragma: no cover  (Windows)
    _LOCK = threading.Lock()

    def _read_at(handle: int, size: int, at: int) -> bytes:
        with _LOCK:
            os.lseek(handle, at, os.SEEK_SET)
            return os.read(handle, size)
