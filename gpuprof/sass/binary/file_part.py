"""Parts of files that are read on demand.

A memory-mapped file would end the program with SIGBUS if it shrinks during reading.
"""

from __future__ import annotations

from typing import BinaryIO

from gpuprof.errors import DamagedInput


class FilePart:
    """`size` bytes of an open file. A slice is a part of it, and bytes() reads it.

    Raises DamagedInput if the file has become shorter.
    """

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._start = start
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> FilePart:
        first, last, _ = part.indices(self._size)
        return FilePart(self._file, self._start + first, max(0, last - first))

    def __bytes__(self) -> bytes:
        self._file.seek(self._start)
        content = self._file.read(self._size)
        if len(content) < self._size:
            raise DamagedInput("the file became shorter while it was read", "check it again when it is complete")
        return content
