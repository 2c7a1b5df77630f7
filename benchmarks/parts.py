"""Files in one tar.gz that is written piece by piece, and cut into numbered parts where it is too large to be sent."""

from __future__ import annotations

import gzip
import io
import itertools
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

PART_BYTES = 15_000_000
"""What mail and forms take of one file."""
_LEVEL = 6
_PIECE = 2**20
_NUMBER = re.compile(r"(.+)\.part([1-9]\d{0,2})")


def fragment(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return files, by name, as a piece of a tar.gz. Pieces and END, one behind the other, are an archive."""
    packed = io.BytesIO()
    for name, data in members:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        packed.write(member.tobuf(tarfile.USTAR_FORMAT))
        packed.write(data + bytes(-len(data) % tarfile.BLOCKSIZE))
    return gzip.compress(packed.getvalue(), _LEVEL, mtime=0)


def end() -> bytes:
    """Return what an archive ends with."""
    return gzip.compress(bytes(2 * tarfile.BLOCKSIZE), _LEVEL, mtime=0)


def write_parts(archive: Path, pieces: Iterable[bytes | Path], part_bytes: int = PART_BYTES) -> tuple[Path, ...]:
    """Write pieces as one file, or as NAME.part1 and so on where they do not fit; what was there of it goes."""
    drafts = list(_drafts(archive, pieces, part_bytes))
    names = [archive] if len(drafts) == 1 else [part_name(archive, number) for number in range(1, len(drafts) + 1)]
    for stale in (archive, *_parts_of(archive)):
        if stale not in names:
            stale.unlink(missing_ok=True)
    for draft, name in zip(drafts, names, strict=True):
        draft.replace(name)
    return tuple(names)


def write_folder(archive: Path, folder: Path) -> tuple[Path, ...]:
    """Write the files that lie in a folder as an archive beside it."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    pieces = (fragment([(f"{folder.name}/{file.name}", file.read_bytes())]) for file in files)
    return write_parts(archive, itertools.chain(pieces, [end()]))


def part_name(archive: Path, number: int) -> Path:
    """Return the name of a part, from 1."""
    return archive.with_name(f"{archive.name}.part{number}")


def number_of(file: Path) -> tuple[str, int | None]:
    """Return the archive that a file belongs to, and its number; None for a whole one."""
    part = _NUMBER.fullmatch(file.name)
    return (part[1], int(part[2])) if part is not None else (file.name, None)


def _drafts(archive: Path, pieces: Iterable[bytes | Path], part_bytes: int) -> Iterator[Path]:
    """Write the pieces into files of at most so many bytes."""
    number, room = 0, 0
    draft: Path | None = None
    for data in _blocks(pieces):
        at = 0
        while at < len(data):
            if not room:
                if draft is not None:
                    yield draft
                number, room = number + 1, part_bytes
                draft = archive.with_name(f".{archive.name}.draft{number}")
                draft.write_bytes(b"")
            assert draft is not None
            with draft.open("ab") as out:
                written = out.write(data[at : at + room])
            at, room = at + written, room - written
    if draft is not None:
        yield draft


def _blocks(pieces: Iterable[bytes | Path]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
            continue
        with piece.open("rb") as data:
            while block := data.read(_PIECE):
                yield block


def _parts_of(archive: Path) -> Iterator[Path]:
    for file in archive.parent.glob(f"{archive.name}.part*"):
        if number_of(file)[1] is not None:
            yield file
