"""The log of a program's output: the first and the last MiB, so that it cannot fill the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gpuprof.errors import UsageError
from gpuprof.own_files import open_plain

MOST_BYTES = 2**20
"""Bytes kept from the start and from the end of each run: settings come first, errors last; about 10,000 lines."""


class ProgramLog:
    """The log of one run."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most = file, most
        self._left = most
        self._tail = bytearray()
        self._dropped = 0

    def write(self, data: bytes) -> None:
        """Append output: write the start to the file, and hold the newest bytes for the end."""
        head, rest = data[: self._left], data[self._left :]
        self._left -= len(head)
        self._tail += rest
        if len(self._tail) > 2 * self._most:
            self._cut()
        if head:
            self._file.write(head)
            self._file.flush()

    def end(self) -> None:
        """Write the end, after a line that says how many bytes were left out."""
        self._cut()
        if self._dropped:
            # A cut line would look complete.
            begins = self._tail.find(b"\n") + 1
            self._dropped += begins
            del self._tail[:begins]
            self._file.write(f"\n… {self._dropped:,} bytes are left out here …\n".encode())
        self._file.write(self._tail)

    def _cut(self) -> None:
        """Drop all but the last bytes."""
        over = max(0, len(self._tail) - self._most)
        del self._tail[:over]
        self._dropped += over


@contextlib.contextmanager
def program_log(path: Path, most: int = MOST_BYTES) -> Iterator[ProgramLog]:
    """Open the log and append a run to it. Raises UsageError if it cannot be opened."""
    try:
        file = open_plain(path, "ab")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "choose another folder with -o") from error
    log = ProgramLog(file, most)
    try:
        yield log
    finally:
        with contextlib.suppress(OSError), file:  # a full disk costs the log, and no result
            log.end()
