"""What a program prints in a run that is not shown: its beginning and its end, so that the log does not fill a disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gpuprof.errors import UsageError
from gpuprof.own_files import open_plain

MOST_BYTES = 2**20
"""Of a run, so many bytes from its start and from its end: settings come first, errors last, and 10,000 lines fit."""


class ProgramLog:
    """The log of one run. `write` takes what the program prints, as it comes."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most = file, most
        self._left = most
        self._tail = bytearray()
        self._dropped = 0

    def write(self, data: bytes) -> None:
        """Write what belongs to the beginning, and keep what may be the end."""
        head, rest = data[: self._left], data[self._left :]
        self._left -= len(head)
        self._tail += rest
        if len(self._tail) > 2 * self._most:
            self._cut()
        if head:
            self._file.write(head)
            self._file.flush()

    def end(self) -> None:
        """Write the end, behind a line that says how much is left out before it."""
        self._cut()
        if self._dropped:
            # What is left of a line would look like a whole one.
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
    """Give the log of a run, behind those of earlier ones. Raises UsageError where it cannot be opened."""
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
