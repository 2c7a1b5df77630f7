"""What a command is told to read, as a file that can be read at any place: standard input, pipes, what gzip packed."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from msgspec import Struct

from gpuprof.errors import InputError
from gpuprof.model.sources import STANDARD_INPUT
from gpuprof.read.container import AGAIN, MAGIC
from gpuprof.read.gzip_stream import Unzipped
from gpuprof.read.identify import HEAD_BYTES, SQLITE, Look, is_packed, unzipped
from gpuprof.read.report_bytes import room_for, room_for_text
from gpuprof.read.spool import ByteStream, spooled
from gpuprof.read.zstd_frames import STARTS as ZSTD

STDIN = "-"
PATIENCE_S = 10.0
"""How long to wait for a writer of a named pipe. A shell starts both sides at once."""
_PAUSE_S = 0.05
_SALVAGE = f"{AGAIN}; --salvage shows what lies before the damage"


def known_as(name: str) -> str:
    """Return what messages call a file that was named so."""
    return STANDARD_INPUT if name == STDIN else name


class PlainFile(Struct, frozen=True):
    """Where the bytes of a file lie, and what the user calls it. `damage` says what gzip could not unpack to its end.

    `is_copy`: the place is a temporary file, gone when what was opened is closed. `packed_bytes` is the size of the
    gzip file that it was unpacked from.
    """

    path: Path
    name: str
    is_copy: bool = False
    damage: str | None = None
    packed_bytes: int | None = None

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Give an error of the block that names a temporary file the name that the user knows."""
        try:
            yield
        except InputError as error:
            if not self.is_copy:
                raise
            said, hint = (text and text.replace(str(self.path), self.name) for text in (error.message, error.hint))
            raise type(error)(said or "", hint) from error


@contextlib.contextmanager
def plain_file(name: str, packed: Callable[[Look], bool] = is_packed, *, salvage: bool = False) -> Iterator[PlainFile]:
    """Give a file, or what stands for it; `-` is standard input. `packed` tells what is to be unpacked.

    With `salvage` what gzip packed may be damaged, and ends there. Raises InputError, and DamagedInput.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = _opened(name, packed, stack, salvage=salvage)
        except OSError as error:
            raise InputError(f"{name:.100} cannot be read: {(error.strerror or str(error)).lower()}") from error
        yield file


def _opened(name: str, packed: Callable[[Look], bool], stack: contextlib.ExitStack, *, salvage: bool) -> PlainFile:
    """Return a file, or its copy, which lasts as long as the stack."""
    if name == STDIN:
        stream = cast("ByteStream", sys.stdin.buffer)
        file = PlainFile(stack.enter_context(spooled(stream, STANDARD_INPUT)), STANDARD_INPUT, is_copy=True)
    elif not name:
        raise InputError("empty file name", "check how the command line was built")
    elif (path := Path(name)).is_fifo():
        with _Pipe(path) as pipe:
            file = PlainFile(stack.enter_context(spooled(pipe, name)), name, is_copy=True)
    else:
        file = PlainFile(path, name)
    while packed(look := Look(file.name, file.path, _head(file.path))):
        file = _unpacked(file, look, stack, salvage=salvage)
    return file


class _Pipe:
    """A pipe with a limited wait for its writer. An unnamed pipe always has one."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        has_name = Path(os.path.realpath(path)).exists()
        self._until = time.monotonic() + PATIENCE_S if has_name else 0.0

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def read1(self, size: int, /) -> bytes:
        """Return available bytes; none at the end. Raises OSError if no writer opens the pipe in time."""
        while True:
            try:
                data = os.read(self._handle, size)
            except BlockingIOError:  # somebody has, and has not written yet
                data = None
            if data == b"" and time.monotonic() < self._until:
                time.sleep(_PAUSE_S)
                continue
            if data == b"" and self._until:
                raise OSError(errno.ETIMEDOUT, f"It is a pipe, and nobody has written into it for {PATIENCE_S:g} s")
            os.set_blocking(self._handle, True)
            self._until = 0.0
            if data is not None:
                return data


def _head(path: Path) -> bytes:
    """Return how a file starts; nothing where it cannot be read, of which whoever reads it tells more."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except (OSError, ValueError):
        return b""


def _unpacked(file: PlainFile, look: Look, stack: contextlib.ExitStack, *, salvage: bool) -> PlainFile:
    """Unpack a file. Raises InputError where that would be too large, DamagedInput where it cannot be unpacked."""
    start = unzipped(look.head)
    room = room_for if start.startswith((MAGIC, SQLITE, *ZSTD)) else room_for_text
    packed_bytes = file.packed_bytes or file.path.stat().st_size
    most = room(packed_bytes)

    def check(size: int) -> None:
        if size > most:
            raise InputError(
                f"{file.name} is more than {most / 2**20:,.0f} MiB unpacked",
                f"if you trust the file, unpack it: gunzip -k {shlex.quote(file.name)}",
            )

    again = _SALVAGE if start.startswith(MAGIC) else AGAIN
    with file.path.open("rb") as packed:
        stream = Unzipped(packed, file.name, check, again, salvage=salvage)
        path = stack.enter_context(spooled(stream, file.name))
    damage = file.damage or stream.damage
    return PlainFile(path, file.name, is_copy=True, damage=damage, packed_bytes=packed_bytes)
