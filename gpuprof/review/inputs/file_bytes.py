"""The bytes of files that are to be reviewed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpuprof.errors import InputError

_MOST_BYTES = 4 * 2**30
"""A cubin or a source is in memory while it is reviewed."""


def read_bytes(path: Path, origin: str, most: int = _MOST_BYTES) -> bytes:
    """Read a file. Raises InputError if that is not possible, or it is larger than `most`."""
    content = head_of(path, origin, most + 1)
    if len(content) > most:
        raise InputError(f"{origin} has more than the {most:,} bytes that are read")
    return content


def head_of(path: Path, origin: str, most: int) -> bytes:
    """Read the beginning of a file. Raises InputError if it is missing, or no file."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{origin:.200} is not a regular file", "write its content to a file, and name that")
            return file.read(min(most, status.st_size))  # Python allocates as many bytes as are requested
    except FileNotFoundError as error:
        raise InputError(f"{origin:.200}: no such file") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{origin:.200} cannot be read: {why.lower()}") from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; do not wait for a pipe without a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
