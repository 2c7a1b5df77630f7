"""A session's file read a kernel at a time: of most launches no more than their group and their time.

It relies on how `write.py` lays a session out, a line a kernel. Any other file is left to `read.py`, and so is one in
which something is wrong: that reads it whole, and says what.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from msgspec.structs import replace

from gpuprof.errors import InputError
from gpuprof.model.merged import Launches, merged
from gpuprof.model.session import SCHEMA_VERSION, KernelProfile, LaunchCount, Session
from gpuprof.store.contradictions import (
    ReferredKernel,
    refuse_contradicting_counts,
    refuse_contradicting_work,
    refuse_contradictions,
    without_foreign_command,
)
from gpuprof.store.read import decoder_of, no_search_for_garbage, refuse_too_many_values

_BEGINS, _ENDS = b'"kernels": [', b"]"
_PIECE = 2**20
_SPACE = b" \t\r\n"
_Asked = TypeVar("_Asked")


class _Other(Exception):
    """The file is laid out in another way, or of another version."""


class _Counted(msgspec.Struct):
    """A kernel as far as its counts."""

    counts: tuple[LaunchCount, ...] = ()


class _Outline(msgspec.Struct):
    """A session with a number in the place of its kernels."""

    kernels: tuple[int, ...]


class _Lines(msgspec.Struct, frozen=True):
    """Where the line of each kernel begins, and the lines before and behind them."""

    before: bytes
    places: array[int]
    kernels: list[ReferredKernel]
    behind: bytes


def read_groups(path: Path, file: str) -> Session | None:
    """Read a session with equal launches as one kernel each, as `model.merged` has it; `file` is what it is called.

    None where `read_session` has to read the file.
    """
    try:
        with path.open("rb") as stream, no_search_for_garbage():
            refuse_too_many_values(iter(lambda: stream.read(_PIECE), b""), path.stat().st_size, file)
            stream.seek(0)
            return _groups(stream, file)
    except (_Other, InputError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _groups(stream: BinaryIO, file: str) -> Session:
    """Return the session of a file. Raises what `read_groups` catches."""
    lines = _lines(stream)
    profile = _asked(stream, lines, decoder_of(KernelProfile).decode)
    counted = _asked(stream, lines, decoder_of(_Counted).decode)

    def checked_profile(place: int) -> KernelProfile:
        kernel = profile(place)
        refuse_contradicting_work(kernel, file)
        return kernel

    def checked_counts(place: int) -> tuple[LaunchCount, ...]:
        counts = counted(place).counts
        refuse_contradicting_counts(lines.kernels[place].id, counts, file)
        return counts

    session = _without_kernels(lines)
    refuse_contradictions(session, lines.kernels, file)
    session = without_foreign_command(session)
    groups = merged(session, Launches(lines.kernels, checked_profile, checked_counts))
    if groups is None:
        groups = replace(session, kernels=tuple(map(checked_profile, range(len(lines.kernels)))))
    return groups


def _lines(stream: BinaryIO) -> _Lines:
    """Read what comes before the kernels, what tells group and time of each, and what comes behind."""
    before = []
    for line in stream:
        before.append(line)
        if line.strip(_SPACE) == _BEGINS:
            break
    at = sum(map(len, before))
    places, kernels = array("Q"), list[ReferredKernel]()
    decode = decoder_of(ReferredKernel).decode
    follows = True
    for line in stream:
        content = line.strip(_SPACE)
        if content.startswith(_ENDS):
            if follows:
                raise _Other
            behind = line + stream.read()
            return _Lines(before=b"".join(before), places=places, kernels=kernels, behind=behind)
        if not follows:
            raise _Other
        follows = content.endswith(b",")
        kernels.append(decode(content[:-1] if follows else content))
        places.append(at)
        at += len(line)
    raise _Other


def _without_kernels(lines: _Lines) -> Session:
    """Return the session of all but the kernels.

    A number in their place shows that this is where a session has them, and not a field within another, or a first one
    of that name, of which JSON takes the last.
    """
    outline = decoder_of(_Outline).decode(lines.before + b"1" + lines.behind)
    session = decoder_of(Session).decode(lines.before + lines.behind)
    if session.schema_version != SCHEMA_VERSION or outline.kernels != (1,):
        raise _Other
    return session


def _asked(stream: BinaryIO, lines: _Lines, decode: Callable[[bytes], _Asked]) -> Callable[[int], _Asked]:
    """Return what reads the kernel at a place."""

    def read(place: int) -> _Asked:
        stream.seek(lines.places[place])
        return decode(stream.readline().strip(_SPACE).removesuffix(b","))

    return read
