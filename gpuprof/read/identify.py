"""Tells what a file is before anyone tries to read it, and says what to do with one that cannot be read here."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path

from gpuprof.errors import InputError
from gpuprof.read.container import MAGIC
from gpuprof.store.page import looks_like_page

_HEAD_BYTES = 4096
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How text starts that Windows PowerShell has redirected into a file."""
GZIP = b"\x1f\x8b"
"""How a gzip file starts."""
_LARGEST_HEAD = 2**20
_TRACE = re.compile(
    rb'\s*\{.*?"(?:traceEvents|deviceProperties|distributedInfo)"\s*:|\s*\[\s*\{[^{}]*"ph"\s*:', re.DOTALL
)
"""How traces of PyTorch and Chrome start: an object with these fields, or a list of events with their phase."""
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_EXPORT = "export it with the Nsight Compute that wrote it: ncu --import {name} --page raw --csv > report.csv"


def identify(path: Path) -> str:
    """Return "ncu-rep", "torch-trace", "nsys-sqlite", "csv", "session" or "page".

    Raises InputError that names what the file is and what to do.
    """
    if path.is_dir():
        raise InputError(f"{path} is a directory", f"name the report files in it: gpuprof show {path}/*.ncu-rep")
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist", _near(path)) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if not head:
        raise InputError(f"{path} is empty", "the profiler wrote nothing; look at its messages")
    return _by_content(path, head)


def _by_content(path: Path, head: bytes) -> str:
    name = path.name.lower()
    if head.startswith(MAGIC):
        return "ncu-rep"
    if head.startswith(b"version https://git-lfs"):
        raise InputError(f"{path} is a Git LFS pointer, not the report itself", f"git lfs pull --include {path.name}")
    if name.endswith(".ncu-repz"):
        raise InputError(f"{path} is a compressed Nsight Compute report", _EXPORT.format(name=path.name))
    if name.endswith((".nsys-rep", ".qdrep")):
        raise InputError(
            f"{path} is an Nsight Systems report; it has a timeline and no counters",
            f"export it: nsys export --type sqlite {path.name}; for counters profile with ncu",
        )
    if head.startswith(b"SQLite format 3\0"):
        return "nsys-sqlite"
    if head.startswith(GZIP) and _starts_trace(_unzipped(head)):
        return "torch-trace"
    if head.startswith((GZIP, b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")):
        raise InputError(f"{path} is a compressed archive", "unpack it first, then name the report inside")
    if name.endswith((".ncu-rep", ".nsight-cuprof-report")):
        raise InputError(f"{path} is not a report: it does not start with NVR", "copy it again, in binary mode")
    return text_kind(head, str(path))


def text_kind(head: bytes, name: str) -> str:
    """Return "torch-trace" or "session" for JSON, "page" for HTML and "csv" for other text, compressed traces included.

    Raises InputError for other binary data.
    """
    if head.startswith(GZIP) and _starts_trace(_unzipped(head)):
        return "torch-trace"
    if head.startswith(UTF16_MARKS):
        head = head[: _HEAD_BYTES // 2 * 2].decode("utf-16", "replace").encode()
    if looks_like_page(head):
        return "page"
    if _starts_trace(head):
        return "torch-trace"
    if b"\0" in head:
        raise InputError(f"{name} is binary data that gpuprof does not know", _known())
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return "session" if start == b"{" else "csv"


def _starts_trace(head: bytes) -> bool:
    """Tell whether a text that begins so is a trace of PyTorch or Chrome."""
    return _TRACE.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def holds_trace(data: bytes) -> bool:
    """Tell whether JSON is a trace whose first bytes do not show it."""
    return _EVENTS.search(data) is not None


def refuse_json(text: str, name: str) -> None:
    """Raise InputError if a text that is no object is JSON all the same: a list, which no session and no CSV is."""
    if not text.lstrip().startswith("["):
        return
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return
    raise InputError(f"{name} is JSON, but not a gpuprof session: it is a list", _known())


def _unzipped(head: bytes) -> bytes:
    """Return what the start of a gzip file holds, as far as it can be unpacked."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _LARGEST_HEAD)
    except zlib.error:
        return b""


def _known() -> str:
    return (
        "gpuprof reads .ncu-rep, .nsight-cuprof-report, ncu's CSV, traces of PyTorch (.json, .json.gz), "
        "nsys exports (.sqlite), its own session.json and its own pages"
    )


def _near(path: Path) -> str | None:
    """Name reports that lie where the missing one was looked for."""
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    reports = sorted(entry.name for entry in folder.glob("*.ncu-rep"))[:3]
    where = "the current folder" if folder == Path() else str(folder)
    return f"{where} has {', '.join(reports)}" if reports else None
