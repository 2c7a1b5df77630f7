"""Any file that gpuprof reads, by what is in it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from gpuprof.errors import InputError
from gpuprof.model.report import Report
from gpuprof.model.session import Session
from gpuprof.read.identify import UTF16_MARKS, identify, refuse_json, text_kind

STDIN = "-"


def read_file(name: str, *, salvage: bool = False) -> Report | Session:
    """Read a report, a CSV export, a session or a page that carries one; `-` reads text from standard input.

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
    return _read_text(path.read_bytes(), name, kind)


def _read_stdin() -> Report | Session:
    return _read_stream(sys.stdin.buffer.read(), "standard input")


def _read_stream(data: bytes, name: str) -> Report | Session:
    """Read what can be read only once."""
    if not data:
        raise InputError(f"{name} is empty")
    if data.startswith(b"NVR\0"):
        raise InputError(
            f"a .ncu-rep cannot be read from {name}", "give its path; only CSV, JSON and pages can be piped"
        )
    return _read_text(data, name, text_kind(data[:4096], name))


def _read_text(data: bytes, name: str, kind: str) -> Report | Session:
    if kind == "page":
        from gpuprof.read.session_html import read_session_html

        return read_session_html(data, name)
    text = data.decode("utf-16" if data.startswith(UTF16_MARKS) else "utf-8-sig", "replace")
    if kind == "session":
        from gpuprof.read.session_json import read_session

        return read_session(text, name)
    refuse_json(text, name)
    from gpuprof.read.ncu_csv import read_ncu_csv

    return read_ncu_csv(text, name, hashlib.sha256(data).hexdigest())
