"""Any file that gpuprof reads, by what is in it."""

from __future__ import annotations

import hashlib
import pkgutil
import shlex
from pathlib import Path

from msgspec.structs import replace

from gpuprof.errors import DamagedInput, InputError
from gpuprof.model.recorded import Report
from gpuprof.model.session import Session
from gpuprof.read.container import AGAIN
from gpuprof.read.file_bytes import digest_of
from gpuprof.read.identify import Look, look_at
from gpuprof.read.plain_file import STDIN, PlainFile, plain_file
from gpuprof.read.readers import Readable, kind_of
from gpuprof.timeline.trace import Trace

_LAUNCHES_ALWAYS, _BYTES_PER_LAUNCH, _SMALL = 15_000, 32, 10**6
"""Maximum number of launches: 15,000, plus one for each 32 bytes beyond a million. Real files, packed or not, have at
least 65 bytes for each."""


def read_file(name: str, *, salvage: bool = False, groups: bool = False) -> Report | Session | Trace:
    """Read a report, what ncu prints, a timeline, a session or a page that carries one; `-` reads standard input.

    With `groups` a session can have equal launches as one kernel, which is then not judged yet.
    Raises InputError (DamagedInput for a broken file) that says what the file is and what to do.
    """
    with plain_file(name, salvage=salvage) as file, file.named():
        try:
            content = _read(file, salvage=salvage, groups=groups)
            _refuse_many(content, file)
        except OSError as error:
            raise InputError(f"{name:.100} cannot be read: {(error.strerror or str(error)).lower()}") from error
    if isinstance(content, Session):
        return content
    if file.damage is not None and isinstance(content, Report):
        content = replace(content, warnings=(file.damage, *content.warnings))
    return replace(content, file=file.name) if file.is_copy else content


def can_be_read_again(name: str) -> bool:
    """Tell whether a name is that of a file or folder, and not of a pipe or standard input, whose bytes come once."""
    try:
        return name != STDIN and (Path(name).is_file() or Path(name).is_dir())
    except (OSError, ValueError):
        return False


def _read(file: PlainFile, *, salvage: bool, groups: bool) -> Report | Session | Trace:
    path, name = file.path, file.name
    look = look_at(path, name)
    try:
        kind = kind_of(look)
    except InputError as error:
        if file.damage is None:
            raise
        raise DamagedInput(f"{error.message}; it is damaged: {file.damage}", error.hint) from error
    if file.damage is not None and not kind.salvage:
        raise DamagedInput(f"{name} is damaged: {file.damage}", AGAIN)
    if kind.check_size is not None:
        pkgutil.resolve_name(kind.check_size)(path.stat().st_size, name)
    if groups and kind.groups is not None:
        session: Session | None = pkgutil.resolve_name(kind.groups)(path, name)
        if session is not None:
            return session
    options = {"salvage": salvage} if kind.salvage else {}
    content: Report | Session | Trace = pkgutil.resolve_name(kind.reader)(*_arguments(look, kind), **options)
    return content


def _refuse_many(content: Report | Session | Trace, file: PlainFile) -> None:
    """Raise InputError if a file has more launches than a real one of its size: each of them is analysed."""
    if isinstance(content, Session):
        number = len(content.kernels)
    else:
        number = len(content.activities if isinstance(content, Trace) else content.launches)
    size = file.packed_bytes or file.path.stat().st_size
    most = _LAUNCHES_ALWAYS + max(0, size - _SMALL) // _BYTES_PER_LAUNCH
    if number > most:
        raise InputError(
            f"{file.name} has {number:,} launches in {size:,} bytes; a file of that size may have {most:,}",
            f"if you trust the file, unpack it: gunzip -k {shlex.quote(file.name)}" if file.packed_bytes else AGAIN,
        )


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
