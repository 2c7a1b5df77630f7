"""The kinds of files that gpuprof knows, a row each: how one is told, and what reads it or what to do with it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.errors import InputError
from gpuprof.read.identify import (
    GZIP,
    REPORTS,
    SQLITE,
    Look,
    is_binary,
    is_list,
    is_object,
    is_packed_trace,
    is_report,
    is_trace,
    named,
    starts,
)
from gpuprof.read.zstd_frames import STARTS as ZSTD

Fits = Callable[[Look], bool]


class Told(NamedTuple):
    """How gpuprof tells what it reads: where in the list it comes, and what it is called."""

    place: int
    description: str


class Readable(Struct, frozen=True):
    """A kind that can be read, by a function `module:name` that is imported when such a file comes.

    It gets the path, the bytes or the text, their name unless it has the path, and the SHA-256 where it asks for it.
    `groups` names a
    function that gets path and name, and returns a session with equal launches as one kernel, or None where the reader
    has to read all of it. `check_size` names one that gets size and name before a file is read. `suffixes` are how
    names of such files may end, where a name alone must tell a file from a program; they do not decide what a file is.
    """

    kind: str
    fits: Fits
    reader: str
    takes: Literal["path", "bytes", "text"]
    told: Told | None
    suffixes: tuple[str, ...] = ()
    digest: bool = False
    salvage: bool = False
    groups: str | None = None
    check_size: str | None = None


class Refused(Struct, frozen=True):
    """A kind that cannot be read: what it is, and what to do. Both may name {path}, {name},
    {known}, and as they are typed, {quoted}, the file's name, and {program}."""

    kind: str
    fits: Fits
    message: str
    hint: str


def _is_page(look: Look) -> bool:
    from gpuprof.store.page import looks_like_page

    return looks_like_page(look.start)


def _is_printed(look: Look) -> bool:
    from gpuprof.read.ncu_csv import has_header
    from gpuprof.read.ncu_text import has_launch

    return not has_header(look.text) and has_launch(look.text)


_TRACE = Readable(
    "torch-trace", is_trace, "gpuprof.read.torch_trace:read_trace_file", takes="path",
    told=Told(4, "PyTorch traces (.json, .json.gz)"), suffixes=(".json", ".json.gz"), digest=True,
    check_size="gpuprof.read.torch_json:check_size", salvage=True,
)  # fmt: skip

KINDS: tuple[Readable | Refused, ...] = (
    Readable(
        "ncu-rep", is_report, "gpuprof.read.ncu_rep:read_ncu_rep", takes="path",
        told=Told(1, ", ".join(REPORTS)), suffixes=REPORTS,
        salvage=True,
    ),
    Refused(
        "git-lfs", starts(b"version https://git-lfs"), "{path} is a Git LFS pointer, not the report itself",
        hint="git lfs pull --include {quoted}",
    ),
    Refused(
        "nsys-rep", named(".nsys-rep", ".qdrep"),
        "{path} is an Nsight Systems report; it has a timeline and no counters",
        hint="export it: nsys export --type sqlite {quoted}; for counters profile with ncu",
    ),
    Refused(
        "measured", named(".measured.yaml", ".samples.jsonl"),
        "{path} was written by gpuprof characterize: it describes a GPU, not a program",
        hint="gpuprof compare BASE NEW compares two NAME.measured.yaml; "
        "reports of that GPU take their measured ceilings from it",
    ),
    Readable(
        "nsys-sqlite", starts(SQLITE), "gpuprof.read.nsys_sqlite:read_nsys_sqlite", takes="path",
        told=Told(5, "nsys exports (.sqlite)"), suffixes=(".sqlite",),
        digest=True,
    ),
    replace(_TRACE, fits=is_packed_trace, told=None),
    Refused(
        "archive", starts(GZIP, b"PK\x03\x04", *ZSTD, b"BZh", b"\xfd7zXZ"),
        "{path} is a compressed archive", hint="unpack it and name the report inside",
    ),
    Refused(
        "no ncu-rep", named(*REPORTS), "{path} is not an ncu report: its first bytes are not those of one",
        hint="copy it again, in binary mode",
    ),
    Readable(
        "page", _is_page, "gpuprof.store.page:read_session_html", takes="bytes",
        told=Told(7, "its own pages"), suffixes=(".html",),
    ),
    _TRACE,
    Refused(
        "program", starts(b"\x7fELF"), "{path} is a program, not a report",
        hint="profile it: gpuprof run -- {program}",
    ),
    Refused(
        "script", named(".py"), "{path} is a Python script, not a report",
        hint="profile it: gpuprof run -- {program}",
    ),
    Refused(
        "shell-script", starts(b"#!"), "{path} is a script, not a report",
        hint="profile it: gpuprof run -- {program}",
    ),
    Refused(
        "binary", is_binary, "{path} is binary data of an unknown kind",
        hint="gpuprof reads {known}",
    ),
    Readable(
        "session", is_object, "gpuprof.store.read:read_session", takes="bytes",
        told=Told(6, "its own session.json"), suffixes=(".json",), groups="gpuprof.store.launches:read_groups",
    ),
    Refused(
        "list", is_list, "{name} is JSON, but not a gpuprof session: it is a list",
        hint="gpuprof reads {known}",
    ),
    Readable(
        "ncu-text", _is_printed, "gpuprof.read.ncu_text:read_ncu_text", takes="text",
        told=Told(3, "ncu's text"), digest=True,
    ),
    Readable(
        "csv", lambda _: True, "gpuprof.read.ncu_csv:read_ncu_csv", takes="text",
        told=Told(2, "ncu's CSV"), suffixes=(".csv",), digest=True,
    ),
)  # fmt: skip
"""In the order in which they are tried; the last one takes all that is left."""


def has_name_of_a_file(word: str) -> bool:
    """Tell whether a word ends as the names of files do that can be read, packed with gzip or not."""
    return word.lower().removesuffix(".gz").endswith(tuple(suffix for kind in _readable() for suffix in kind.suffixes))


def kind_of(look: Look) -> Readable:
    """Return the kind of a file. Raises InputError for one that cannot be read."""
    kind = next(kind for kind in KINDS if kind.fits(look))
    if isinstance(kind, Readable):
        return kind
    folder = "" if os.sep in look.name or look.name.endswith(".py") else f".{os.sep}"
    fields = {
        "path": look.name, "name": look.name, "known": _known(),
        "quoted": shlex.quote(Path(look.name).name), "program": shlex.quote(folder + look.name),
    }  # fmt: skip
    raise InputError(kind.message.format(**fields), kind.hint.format(**fields))


def _known() -> str:
    """List what gpuprof reads."""
    told = sorted(kind.told for kind in _readable() if kind.told is not None)
    *most, last = (row.description for row in told)
    return f"{', '.join(most)} and {last}"


def _readable() -> list[Readable]:
    return [kind for kind in KINDS if isinstance(kind, Readable)]
