"""The bytes of files that are to be reviewed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpuprof.errors import InputError

MOST_BYTES = 4 * 2**30
"""A cubin or a source is in memory while it is reviewed."""


def read_bytes(path: Path, origin: str, most: int = MOST_BYTES) -> bytes:
    """Read a file. Raises InputError if that is not possible, or it is larger than `most`."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{origin} is not a regular file", "write what it holds to a file, and name that")
            if status.st_size > most:
                raise InputError(f"{origin} has {status.st_size:,} bytes; at most {most:,} are read")
            return file.read(status.st_size)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{origin} cannot be read: {why.lower()}") from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes into is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def head_of(path: Path, origin: str, most: int) -> bytes:
    """Read the beginning of a file. Raises InputError for what is missing, empty, or no file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{origin} is not a regular file", "write what it holds to a file, and name that")
        with path.open("rb") as file:
            head = file.read(most)
    except FileNotFoundError as error:
        raise InputError(f"{origin}: no such file") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{origin:.200} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not head:
        raise InputError(f"{origin} is empty")
    return head
