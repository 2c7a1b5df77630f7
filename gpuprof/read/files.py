"""Any file that gpuprof reads, by what is in it."""

from __future__ import annotations

import hashlib
import pkgutil
import sys
from pathlib import Path

from gpuprof.errors import InputError
from gpuprof.model.recorded import Report
from gpuprof.model.session import Session
from gpuprof.model.trace import Trace
from gpuprof.read.file_bytes import digest_of
from gpuprof.read.identify import Look, look_at, look_at_stream
from gpuprof.read.readers import Readable, kind_of

STDIN = "-"


def read_file(name: str, *, salvage: bool = False) -> Report | Session | Trace:
    """Read a report, a CSV export, a timeline, a session or a page that carries one; `-` reads standard input.

    Raises InputError (DamagedInput for a broken file) that says what the file is and what to do.
    """
    look, kind = _recognised(name)
    if kind.check_size is not None and look.path is not None:
        pkgutil.resolve_name(kind.check_size)(look.path.stat().st_size, name)
    options = {"salvage": salvage} if kind.salvage else {}
    read = pkgutil.resolve_name(kind.reader)
    content: Report | Session | Trace = read(*_arguments(look, kind), **options)
    return content


def _recognised(name: str) -> tuple[Look, Readable]:
    """Return what a file looks like, and its kind."""
    if name == STDIN:
        look = look_at_stream(sys.stdin.buffer.read(), "standard input")
        return look, kind_of(look)
    if not name:
        raise InputError("a file name is empty", "look at how the command line was put together")
    path = Path(name)
    try:
        look = look_at_stream(path.read_bytes(), name) if path.is_fifo() else look_at(path, name)
        return look, kind_of(look)
    except OSError as error:
        raise InputError(f"{name:.100} cannot be read: {error.strerror or error}") from error


def _arguments(look: Look, kind: Readable) -> list[Path | bytes | str]:
    """Return what the reader of that kind takes."""
    if kind.takes == "path":
        assert look.path is not None
        return [look.path, _digest(look.path)] if kind.digest else [look.path]
    digest = [hashlib.sha256(look.data).hexdigest()] if kind.digest else []
    return [look.data if kind.takes == "bytes" else look.text, look.name, *digest]


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file that may be larger than memory. Raises InputError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return digest_of(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
