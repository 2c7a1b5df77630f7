"""Any file that gpuprof reads, by what is in it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from gpuprof.errors import InputError
from gpuprof.model.report import Report
from gpuprof.model.session import Session
from gpuprof.model.trace import Trace
from gpuprof.read.identify import UTF16_MARKS, holds_trace, identify, refuse_json, text_kind

STDIN = "-"
_PIECE = 2**20


def read_file(name: str, *, salvage: bool = False) -> Report | Session | Trace:
    """Read a report, a CSV export, a timeline, a session or a page that carries one; `-` reads standard input.

    Raises InputError (DamagedInput for a broken file) that says what the file is and what to do.
    """
    if name == STDIN:
        return _read_stdin()
    if not name:
        raise InputError("a file name is empty", "look at how the command line was put together")
    path = Path(name)
    try:
        if path.is_fifo():
            return _read_stream(path.read_bytes(), name)
        kind = identify(path)
    except OSError as error:
        raise InputError(f"{name:.100} cannot be read: {error.strerror or error}") from error
    if kind == "ncu-rep":
        from gpuprof.read.ncu_rep import read_ncu_rep

        return read_ncu_rep(path, salvage=salvage)
    if kind == "nsys-sqlite":
        from gpuprof.read.nsys_sqlite import read_nsys_sqlite

        return read_nsys_sqlite(path, _digest(path))
    if kind == "torch-trace":
        from gpuprof.read.torch_json import check_size

        check_size(path.stat().st_size, name)
    return _read_text(path.read_bytes(), name, kind)


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file that may be larger than memory. Raises InputError if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()


def _read_stdin() -> Report | Session | Trace:
    return _read_stream(sys.stdin.buffer.read(), "standard input")


def _read_stream(data: bytes, name: str) -> Report | Session | Trace:
    """Read what can be read only once."""
    if not data:
        raise InputError(f"{name} is empty")
    if data.startswith(b"NVR\0"):
        raise InputError(f"a .ncu-rep cannot be read from {name}", "give its path; only text and traces can be piped")
    return _read_text(data, name, text_kind(data[:4096], name))


def _read_text(data: bytes, name: str, kind: str) -> Report | Session | Trace:
    if kind == "page":
        from gpuprof.store.page import read_session_html

        return read_session_html(data, name)
    if kind == "torch-trace" or (kind == "session" and holds_trace(data)):
        from gpuprof.read.torch_trace import read_torch_trace

        return read_torch_trace(data, name, hashlib.sha256(data).hexdigest())
    text = data.decode("utf-16" if data.startswith(UTF16_MARKS) else "utf-8-sig", "replace")
    if kind == "session":
        from gpuprof.store.read import read_session

        return read_session(text, name)
    refuse_json(text, name)
    from gpuprof.read.ncu_csv import read_ncu_csv

    return read_ncu_csv(text, name, hashlib.sha256(data).hexdigest())
