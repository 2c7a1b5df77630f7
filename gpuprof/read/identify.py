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
from gpuprof.read.text_encoding import decoded, is_utf16

HEAD_BYTES = 4096
GZIP = b"\x1f\x8b"
"""How a gzip file starts."""
SQLITE = b"SQLite format 3\0"
"""How an SQLite file starts."""
REPORTS = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")
"""How the names of ncu's reports end."""
SAMPLE_BYTES = 2**20
"""So much of the content of a file is searched for signs of other tools."""
_STEP_BYTES = 64
"""So many bytes are unpacked at a time: of those before an error of gzip nothing is lost."""
_TRACE = re.compile(
    rb'\s*\{.*?"(?:traceEvents|deviceProperties|distributedInfo)"\s*:|\s*\[\s*\{[^{}]*"ph"\s*:', re.DOTALL
)
"""How traces of PyTorch and Chrome start: an object with these fields, or a list of events with their phase."""
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_SESSION = re.compile(rb'\s*\{\s*"schema_version"\s*:')
"""How a session starts that gpuprof has written."""
_VERSION = re.compile(rb'"schema_version"\s*:\s*"?\d')
"""What is near the start of a session even if another tool has written it again."""


@dataclass(frozen=True)
class Look:
    """A file as the kinds of files see it. `name` is what the user called it, or what its bytes came from.

    `most` is how many bytes of it are looked at, -1 for all.
    """

    name: str
    path: Path
    head: bytes
    most: int = -1

    @cached_property
    def start(self) -> bytes:
        """Return the head; that of UTF-16 as UTF-8."""
        return decoded(self.head).encode() if is_utf16(self.head) else self.head

    @cached_property
    def sample(self) -> bytes:
        """Return the first MiB, or less if less is looked at: of what gzip packed, the content; of UTF-16, UTF-8."""
        return self.first(SAMPLE_BYTES if self.most < 0 else min(self.most, SAMPLE_BYTES))

    def first(self, size: int) -> bytes:
        """Return at most so many bytes of the content, as `sample` has them."""
        with self.path.open("rb") as file:
            content = file.read(size)
        if content.startswith(GZIP):
            content = unzipped(content, size)
        if is_utf16(content):
            content = decoded(content).encode()
        return content.removeprefix(b"\xef\xbb\xbf")

    @cached_property
    def data(self) -> bytes:
        """Read the whole of it, or as much as is looked at."""
        with self.path.open("rb") as file:
            return file.read(self.most)

    @cached_property
    def text(self) -> str:
        """Return its data as text."""
        return decoded(self.data)


def look_at(path: Path, name: str, most: int = -1) -> Look:
    """Look at a file, or its first bytes. Raises InputError if there is none, DamagedInput if it is empty."""
    if path.is_dir():
        raise InputError(f"{path} is a folder", "name a file in it")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file", _near(path)) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    if not head:
        raise DamagedInput(f"{path} is empty", "the profiler wrote nothing; check its messages")
    return Look(name, path, head, most)


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
    is_text = bool(start) and (b"\0" not in start or is_utf16(start))
    return start.startswith((MAGIC, SQLITE, *zstd_frames.STARTS)) or (is_text and not is_packed_trace(look))


def is_packed_trace(look: Look) -> bool:
    """Tell whether it is a compressed trace of PyTorch or Chrome."""
    return look.head.startswith(GZIP) and _starts_trace(look.sample)


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
        while piece := file.read(SAMPLE_BYTES):
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


def is_session(look: Look) -> bool:
    """Tell whether it is a session that gpuprof has written."""
    return is_object(look) and _VERSION.search(look.start) is not None


def is_json(look: Look) -> bool:
    """Tell whether the content starts as that of JSON with an object or a list does."""
    return look.sample.lstrip().startswith((b"{", b"["))


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


def unzipped(head: bytes, most: int = SAMPLE_BYTES) -> bytes:
    """Return what the start of a gzip file holds, as far as it can be unpacked, and at most so many bytes."""
    unpacker, start = zlib.decompressobj(wbits=31), bytearray()
    with contextlib.suppress(zlib.error):
        for at in range(0, len(head), _STEP_BYTES):
            start += unpacker.decompress(head[at : at + _STEP_BYTES], most - len(start))
            if len(start) == most:
                break
    return bytes(start)


def typed(path: Path) -> str:
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
