"""The kinds of files that gpuprof knows, a row each: how one is told, and what reads it or what to do with it."""

from __future__ import annotations

import os
import shlex
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
    is_session,
    is_trace,
    named,
    starts,
)
from gpuprof.read.other_tools import BINARIES, JSON, TEXTS, TRACES, Fits, Refused
from gpuprof.read.zstd_frames import STARTS as ZSTD


class Told(NamedTuple):
    """How gpuprof lists what it reads: the place in the list, and the description."""

    place: int
    description: str


class Readable(Struct, frozen=True):
    """A kind that can be read, by a function `module:name` that is imported when such a file comes.

    It is `called` so if `fits` is sure; None for a kind that takes what is left. The function gets the path, the bytes
    or the text, their name unless it has the path, and the SHA-256 if it asks for it. `groups` names a function that
    gets path and name, and returns a session with equal launches as one kernel, or None if the reader has to read all
    of it. `check_size` names one that gets size and name before a file is read. `suffixes` are the ends of names of
    such files, for when only a name can distinguish a file from a program; they do not decide what a file is.
    """

    called: str | None
    fits: Fits
    reader: str
    takes: Literal["path", "bytes", "text"]
    told: Told | None
    suffixes: tuple[str, ...] = ()
    digest: bool = False
    salvage: bool = False
    groups: str | None = None
    check_size: str | None = None


def _is_page(look: Look) -> bool:
    from gpuprof.store.page import looks_like_page

    return looks_like_page(look.start) and b"gpuprof" in look.data


def _is_printed(look: Look) -> bool:
    from gpuprof.read.ncu_csv import has_header
    from gpuprof.read.ncu_text import has_launch

    return not has_header(look.text) and has_launch(look.text)


def _has_table(look: Look) -> bool:
    from gpuprof.read.ncu_csv import has_header

    return has_header(look.text)


def _is_foreign(look: Look) -> bool:
    from gpuprof.read.printed_refusal import is_of_ncu

    return not is_of_ncu(look.text)


TRACE = "a trace"
"""What a file of PyTorch's profiler is called."""
_TRACE = Readable(
    TRACE, is_trace, "gpuprof.read.torch_trace:read_trace_file", takes="path",
    told=Told(4, "PyTorch traces (.json, .json.gz)"), suffixes=(".json", ".json.gz"), digest=True,
    check_size="gpuprof.read.torch_json:check_size", salvage=True,
)  # fmt: skip

_SESSION = Readable(
    "a gpuprof session", is_session, "gpuprof.store.read:read_session", takes="bytes",
    told=Told(6, "its own session.json"), suffixes=(".json",), groups="gpuprof.store.launches:read_groups",
)  # fmt: skip
_CSV = Readable(
    "an ncu CSV", _has_table, "gpuprof.read.ncu_csv:read_ncu_csv", takes="text",
    told=Told(2, "ncu's CSV"), suffixes=(".csv", ".tsv"), digest=True,
)  # fmt: skip

KINDS: tuple[Readable | Refused, ...] = (
    Readable(
        "an ncu report", is_report, "gpuprof.read.ncu_rep:read_ncu_rep", takes="path",
        told=Told(1, ", ".join(REPORTS)), suffixes=REPORTS,
        salvage=True,
    ),
    Refused(
        starts(b"version https://git-lfs"), "{path} is a Git LFS pointer, not the report itself",
        hint="git lfs pull --include {quoted}", called="a Git LFS pointer",
    ),
    Refused(
        named(".nsys-rep", ".qdrep"),
        "{path} is an Nsight Systems report; it has a timeline and no counters",
        hint="export it: nsys export --type sqlite {quoted}; for counters profile with ncu",
        called="an Nsight Systems report",
    ),
    Refused(
        named(".measured.yaml", ".samples.jsonl"),
        "{path} was written by gpuprof characterize: it describes a GPU, not a program",
        hint="gpuprof compare BASE NEW compares two NAME.measured.yaml; "
        "reports of that GPU take their measured ceilings from it", called="a measured file",
    ),
    *BINARIES,
    Readable(
        "an Nsight Systems export", starts(SQLITE), "gpuprof.read.nsys_sqlite:read_nsys_sqlite", takes="path",
        told=Told(5, "nsys exports (.sqlite)"), suffixes=(".sqlite",),
        digest=True,
    ),
    *TRACES,
    replace(_TRACE, fits=is_packed_trace, told=None),
    Refused(
        starts(GZIP, b"PK\x03\x04", *ZSTD, b"BZh", b"\xfd7zXZ"),
        "{path} is a compressed archive", hint="unpack it and name the report inside",
    ),
    Refused(
        named(*REPORTS), "{path} is not an ncu report: its first bytes are not those of one",
        hint="copy it again, in binary mode", called="an ncu report",
    ),
    Readable(
        "a gpuprof page", _is_page, "gpuprof.store.page:read_session_html", takes="bytes",
        told=Told(7, "its own pages"), suffixes=(".html",),
    ),
    _TRACE,
    Refused(
        starts(b"\x7fELF"), "{path} is a program, not a report",
        hint="profile it: gpuprof run -- {program}",
    ),
    Refused(
        named(".py"), "{path} is a Python script, not a report",
        hint="profile it: gpuprof run -- {program}",
    ),
    Refused(
        starts(b"#!"), "{path} is a script, not a report",
        hint="profile it: gpuprof run -- {program}",
    ),
    Refused(
        is_binary, "{path} is binary data of an unknown kind",
        hint="gpuprof reads {known}",
    ),
    _SESSION,
    *JSON,
    replace(_SESSION, fits=is_object, called=None, told=None),
    Refused(
        is_list, "{name} is JSON, but not a gpuprof session: it is a list",
        hint="gpuprof reads {known}",
    ),
    Readable(
        "an ncu log", _is_printed, "gpuprof.read.ncu_text:read_ncu_text", takes="text",
        told=Told(3, "ncu's text"), digest=True,
    ),
    _CSV,
    *TEXTS,
    Refused(_is_foreign, "{path} has nothing in it that gpuprof reads", hint="gpuprof reads {known}"),
    replace(_CSV, fits=lambda _: True, called=None, told=None),
)  # fmt: skip
"""In the order in which they are tried; the last one takes all that is left."""


def has_name_of_a_file(word: str) -> bool:
    """Tell whether a word ends as the names of files do that can be read, packed with gzip or not."""
    return word.lower().removesuffix(".gz").endswith(tuple(suffix for kind in _readable() for suffix in kind.suffixes))


def can_be_read(called: str) -> bool:
    """Return whether files that are called so can be read."""
    return any(kind.called == called for kind in _readable())


def kind_of(look: Look) -> Readable:
    """Return the kind of a file. Raises InputError for one that cannot be read."""
    kind = next(kind for kind in KINDS if kind.fits(look))
    if isinstance(kind, Readable):
        return kind
    folder = "" if os.sep in look.name or look.name.endswith(".py") else f".{os.sep}"
    fields = {
        "path": look.name, "name": look.name, "known": known(),
        "quoted": shlex.quote(Path(look.name).name), "program": shlex.quote(folder + look.name),
    }  # fmt: skip
    raise InputError(kind.message.format(**fields), kind.hint.format(**fields))


def known() -> str:
    """List what gpuprof reads."""
    told = sorted(kind.told for kind in _readable() if kind.told is not None)
    *most, last = (row.description for row in told)
    return f"{', '.join(most)} and {last}"


def _readable() -> list[Readable]:
    return [kind for kind in KINDS if isinstance(kind, Readable)]
