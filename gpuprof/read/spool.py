"""What can be read only once, such as standard input: a temporary file stands for it while it is read."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from gpuprof.errors import InputError

_PIECE = 2**20
_NAME = "input"
_folders: list[Path] = []


class ByteStream(Protocol):
    """What gives its bytes once, as they come."""

    def read1(self, size: int, /) -> bytes:
        """Return what is there now, at most so many bytes; none at the end."""
        ...


@contextlib.contextmanager
def spooled(stream: ByteStream, name: str) -> Iterator[Path]:
    """Give a file with all that a stream holds, piece by piece; it is gone behind the block.

    Raises InputError where the stream cannot be read, or the file not be written.
    """
    try:
        folder = _new_folder()
    except OSError as error:
        raise _no_room(name, error) from error
    try:
        place = folder / _NAME
        _fill(place, stream, name)
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _folders.remove(folder)


def _new_folder() -> Path:
    """Make a folder that `remove_spooled` knows: no signal comes between."""
    ending = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ending) if hasattr(signal, "pthread_sigmask") else ()
    try:
        folder = Path(tempfile.mkdtemp(prefix="gpuprof-"))
        _folders.append(folder)
    finally:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
    return folder


def remove_spooled() -> None:
    """Remove what is there now, because the process ends."""
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(place: Path, stream: ByteStream, name: str) -> None:
    try:
        with place.open("wb") as file:
            while piece := _next(stream, name):
                file.write(piece)
    except OSError as error:
        raise _no_room(name, error) from error


def _next(stream: ByteStream, name: str) -> bytes:
    try:
        return stream.read1(_PIECE)
    except OSError as error:
        raise InputError(f"{name:.100} cannot be read: {(error.strerror or str(error)).lower()}") from error


def _no_room(name: str, error: OSError) -> InputError:
    return InputError(
        f"{name:.100} cannot be kept in a temporary file: {error.strerror or error}",
        "make room in the temporary folder, or name another one in TMPDIR",
    )
