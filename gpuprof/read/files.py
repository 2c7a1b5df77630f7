"""Any file that gpuprof reads, by what is in it."""

from __future__ import annotations

import hashlib
import pkgutil
import shlex
import sys
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from gpuprof.errors import InputError
from gpuprof.model.recorded import Report
from gpuprof.model.session import Session
from gpuprof.model.sources import STANDARD_INPUT
from gpuprof.model.trace import Trace
from gpuprof.read.container import AGAIN
from gpuprof.read.file_bytes import digest_of
from gpuprof.read.gzip_stream import Unzipped
from gpuprof.read.identify import Look, is_packed, look_at
from gpuprof.read.readers import Readable, kind_of
from gpuprof.read.report_bytes import room_for
from gpuprof.read.spool import ByteStream, spooled

STDIN = "-"


def read_file(name: str, *, salvage: bool = False, groups: bool = False) -> Report | Session | Trace:
    """Read a report, what ncu prints, a timeline, a session or a page that carries one; `-` reads standard input.

    With `groups` a session can have equal launches as one kernel, which is then not judged yet.
    Raises InputError (DamagedInput for a broken file) that says what the file is and what to do.
    """
    if name == STDIN:
        with spooled(cast("ByteStream", sys.stdin.buffer), STANDARD_INPUT) as place:
            return _read_as(STANDARD_INPUT, place, salvage=salvage, groups=groups)
    if not name:
        raise InputError("empty file name", "check how the command line was built")
    path = Path(name)
    try:
        if path.is_fifo():
            with path.open("rb") as pipe, spooled(pipe, name) as place:
                return _read_as(name, place, salvage=salvage, groups=groups)
        return _read(path, name, salvage=salvage, groups=groups)
    except OSError as error:
        raise InputError(f"{name:.100} cannot be read: {(error.strerror or str(error)).lower()}") from error


def can_be_read_again(name: str) -> bool:
    """Tell whether a name is that of a file, and not of a pipe or standard input, whose bytes come once."""
    try:
        return name != STDIN and Path(name).is_file()
    except (OSError, ValueError):
        return False


def _read_as(name: str, place: Path, *, salvage: bool, groups: bool) -> Report | Session | Trace:
    """Read what a temporary file holds, under the name of what it stands for."""
    try:
        content = _read(place, name, salvage=salvage, groups=groups)
    except InputError as error:
        said, hint = error.message.replace(str(place), name), error.hint
        raise type(error)(said, hint.replace(str(place), name) if hint is not None else None) from error
    return content if isinstance(content, Session) else replace(content, file=name)


def _read(path: Path, name: str, *, salvage: bool, groups: bool) -> Report | Session | Trace:
    look = look_at(path, name)
    if is_packed(look):
        return _read_unzipped(path, name, salvage=salvage, groups=groups)
    kind = kind_of(look)
    if kind.check_size is not None:
        pkgutil.resolve_name(kind.check_size)(path.stat().st_size, name)
    if groups and kind.groups is not None:
        session: Session | None = pkgutil.resolve_name(kind.groups)(path, name)
        if session is not None:
            return session
    options = {"salvage": salvage} if kind.salvage else {}
    content: Report | Session | Trace = pkgutil.resolve_name(kind.reader)(*_arguments(look, kind), **options)
    return content


def _read_unzipped(path: Path, name: str, *, salvage: bool, groups: bool) -> Report | Session | Trace:
    """Read what gzip has packed, from a temporary file. Raises InputError where that would be too large."""
    most = room_for(path.stat().st_size)

    def check(size: int) -> None:
        if size > most:
            raise InputError(
                f"{name} is more than {most / 2**20:,.0f} MiB unpacked",
                f"if you trust the file, unpack it: gunzip -k {shlex.quote(name)}",
            )

    with path.open("rb") as file, spooled(Unzipped(file, name, check, AGAIN), name) as place:
        return _read_as(name, place, salvage=salvage, groups=groups)


def _arguments(look: Look, kind: Readable) -> list[Path | bytes | str]:
    """Return what the reader of that kind takes."""
    if kind.takes == "path":
        return [look.path, _digest(look.path)] if kind.digest else [look.path]
    digest = [hashlib.sha256(look.data).hexdigest()] if kind.digest else []
    return [look.data if kind.takes == "bytes" else look.text, look.name, *digest]


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file that may be larger than memory. Raises InputError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return digest_of(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
