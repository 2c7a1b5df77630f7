"""What a file looks like before anyone tries to read it: its name, its first bytes, the rest where that decides."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from gpuprof.errors import DamagedInput, InputError
from gpuprof.read import zstd_frames
from gpuprof.read.container import MAGIC

HEAD_BYTES = 4096
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How text starts that Windows PowerShell has redirected into a file."""
GZIP = b"\x1f\x8b"
"""How a gzip file starts."""
SQLITE = b"SQLite format 3\0"
"""How an SQLite file starts."""
REPORTS = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")
"""How the names of ncu's reports end."""
_LARGEST_HEAD = 2**20
_STEP_BYTES = 64
"""So many bytes are unpacked at a time: of those before an error of gzip nothing is lost."""
_TRACE = re.compile(
    rb'\s*\{.*?"(?:traceEvents|deviceProperties|distributedInfo)"\s*:|\s*\[\s*\{[^{}]*"ph"\s*:', re.DOTALL
)
"""How traces of PyTorch and Chrome start: an object with these fields, or a list of events with their phase."""
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_SESSION = re.compile(rb'\s*\{\s*"schema_version"\s*:')
"""How a session starts that gpuprof has written."""


@dataclass(frozen=True)
class Look:
    """A file as the kinds of files see it. `name` is what the user called it, or what its bytes came from."""

    name: str
    path: Path
    head: bytes

    @cached_property
    def start(self) -> bytes:
        """Return the head; that of UTF-16 as UTF-8."""
        if not self.head.startswith(UTF16_MARKS):
            return self.head
        return self.head[: HEAD_BYTES // 2 * 2].decode("utf-16", "replace").encode()

    @cached_property
    def data(self) -> bytes:
        """Read the whole of it."""
        return self.path.read_bytes()

    @cached_property
    def text(self) -> str:
        """Read the whole of it as text."""
        return self.data.decode("utf-16" if self.data.startswith(UTF16_MARKS) else "utf-8-sig", "replace")


def look_at(path: Path, name: str) -> Look:
    """Look at a file. Raises InputError where there is none, DamagedInput where nothing is in it."""
    if path.is_dir():
        raise InputError(f"{path} is a folder", f"name the reports in it: gpuprof show {_typed(path)}/*.ncu-rep*")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file", _near(path)) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    if not head:
        raise DamagedInput(f"{path} is empty", "the profiler wrote nothing; check its messages")
    return Look(name, path, head)


def starts(*beginnings: bytes) -> Callable[[Look], bool]:
    """Return what tells files by their first bytes."""
    return lambda look: look.head.startswith(beginnings)


def named(*suffixes: str) -> Callable[[Look], bool]:
    """Return what tells files by the end of their name."""
    return lambda look: look.name.lower().endswith(suffixes)


def is_report(look: Look) -> bool:
    """Tell whether it is a report of ncu; a compressed one may have any name if its content shows what it is."""
    if not look.head.startswith(zstd_frames.STARTS):
        return look.head.startswith(MAGIC)
    return named(*REPORTS)(look) or _unpacked_start(look).startswith(MAGIC)


def is_packed(look: Look) -> bool:
    """Tell whether gzip has packed a report, an export or text, which is read as if it had not; no trace of PyTorch."""
    if not look.head.startswith(GZIP):
        return False
    start = unzipped(look.head)
    is_text = bool(start) and (b"\0" not in start or start.startswith(UTF16_MARKS))
    return start.startswith((MAGIC, SQLITE, *zstd_frames.STARTS)) or (is_text and not _starts_trace(start))


def is_packed_trace(look: Look) -> bool:
    """Tell whether it is a compressed trace of PyTorch or Chrome."""
    return look.head.startswith(GZIP) and _starts_trace(unzipped(look.head))


def is_trace(look: Look) -> bool:
    """Tell whether it is a trace of PyTorch or Chrome, even one whose first bytes do not show it."""
    if _starts_trace(look.start):
        return True
    may_be = is_object(look) and not is_binary(look) and _SESSION.match(look.start) is None
    return may_be and _has_events(look.path)


def _has_events(path: Path) -> bool:
    """Search a file, which can be larger than memory, for a list of events."""
    before = b""
    with path.open("rb") as file:
        while piece := file.read(_LARGEST_HEAD):
            if _EVENTS.search(before + piece) is not None:
                return True
            before = piece[-_STEP_BYTES:]
    return False


def is_binary(look: Look) -> bool:
    """Tell whether it is no text."""
    return b"\0" in look.start


def is_object(look: Look) -> bool:
    """Tell whether text starts as a JSON object does."""
    return look.start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def is_list(look: Look) -> bool:
    """Tell whether text is a JSON list, which no session and no CSV is."""
    text = look.text
    if not text.lstrip().startswith("["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _starts_trace(head: bytes) -> bool:
    return _TRACE.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def _unpacked_start(look: Look) -> bytes:
    """Return how what a zstd file holds starts, if it can be unpacked."""
    start = b""
    try:
        with look.path.open("rb") as file:
            for piece in zstd_frames.unpacked(file, look.name, sys.maxsize):
                start += piece
                if len(start) >= len(MAGIC):
                    break
    except (zstd_frames.Broken, InputError):
        pass
    return start


def unzipped(head: bytes) -> bytes:
    """Return what the start of a gzip file holds, as far as it can be unpacked."""
    unpacker, start = zlib.decompressobj(wbits=31), b""
    with contextlib.suppress(zlib.error):
        for at in range(0, len(head), _STEP_BYTES):
            start += unpacker.decompress(head[at : at + _STEP_BYTES], _LARGEST_HEAD - len(start))
            if len(start) == _LARGEST_HEAD:
                break
    return start


def _typed(path: Path) -> str:
    """Return a name as a command line can have it."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def _near(path: Path) -> str | None:
    """Name reports that lie where the missing one was looked for."""
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    names = sorted(entry.name for entry in folder.glob("*.n*-rep*") if entry.name.endswith(REPORTS))
    reports = get_close_matches(path.name, names, n=3) or names[:3]
    where = "the current folder" if folder == Path() else str(folder)
    return f"{where} has {', '.join(reports)}" if reports else None
