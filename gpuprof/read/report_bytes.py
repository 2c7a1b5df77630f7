"""The bytes of a report file, unpacked where zstd has compressed them: `.ncu-repz`, whatever its name.

What is unpacked lies in memory or, if it is large, in a temporary file without a name, which is gone when the process
is, however that ends.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import IO, BinaryIO

from msgspec import Struct

from gpuprof.errors import DamagedInput, InputError
from gpuprof.read.container import MAGIC, Damage
from gpuprof.read.file_bytes import LARGE, Bytes, Digest, bytes_of
from gpuprof.read.zstd_frames import STARTS, Broken, unpacked

_MOST = 16 * 2**30
"""It takes so much of the disk. The largest of 17 real reports has less than a thousandth of this."""
_MOST_TIMES = 400
"""zstd -19 makes 17 real reports 6 to 40 times smaller, and a further launch of the same kernel some 30 times. What
shrinks far more is made to fill memory and disk."""
_ALWAYS = 16 * 2**20
"""So much is unpacked whatever the size of the file: made-up reports of equal launches shrink to next to nothing."""

_TEXT_ALWAYS, _MOST_TIMES_TEXT, _SMALL = 48 * 2**20, 100, 10**6
"""Limits for exports and sessions, which are read into memory: 48 MiB, plus 100 bytes for each packed byte beyond a
million. gzip shrinks real ones 15 to 90 times."""


class Content(Struct, frozen=True):
    """A report's bytes, the SHA-256 of its file, and for one that is compressed where that file is damaged."""

    data: Bytes
    digest: Digest
    packed: bool
    damage: Damage | None


def content_of(path: Path) -> Content:
    """Open a report's bytes. Of a damaged compressed file they are those before the damage.

    Raises InputError where they would be too many, and DamagedInput where they are no report.
    """
    with path.open("rb") as file:
        packed = file.read(4) in STARTS
        file.seek(0)
        if packed:
            return _unpacked(path, file)
        data = bytes_of(file)
    return Content(data, Digest(data), packed=False, damage=None)


def _unpacked(path: Path, file: BinaryIO) -> Content:
    digest = Digest(bytes_of(file))
    file.seek(0)
    try:
        with tempfile.SpooledTemporaryFile(LARGE, prefix="gpuprof-") as spool:
            damage = _fill(spool, path, file)
            return Content(bytes_of(spool), digest, packed=True, damage=damage)
    except OSError as error:
        raise InputError(
            f"{path} cannot be unpacked into a temporary file: {error.strerror or error}",
            "free some space there, or set TMPDIR to another folder",
        ) from error


def _fill(spool: IO[bytes], path: Path, file: BinaryIO) -> Damage | None:
    """Unpack a file into another one, as far as it goes, and return where it did not go on."""
    start = b""
    damage: Damage | None = None
    try:
        for piece in unpacked(file, str(path), room_for(path.stat().st_size)):
            spool.write(piece)
            start = (start + piece[: len(MAGIC)])[: len(MAGIC)]
            if not MAGIC.startswith(start):
                break
    except Broken as broken:
        damage = Damage(broken.at, broken.why)
    if start != MAGIC and (damage is None or not MAGIC.startswith(start)):
        what = "the first bytes of its content are not those of one" if start else "it has no content"
        raise DamagedInput(f"{path} is not a compressed report: {what}", "copy it again, or profile again")
    return damage


def room_for(packed_size: int) -> int:
    """Return the maximum unpacked size of a report."""
    return _room(min(_MOST, max(_ALWAYS, _MOST_TIMES * packed_size)))


def room_for_text(packed_size: int) -> int:
    """Return the maximum unpacked size of a text, which is read into memory."""
    return _room(min(_MOST, _TEXT_ALWAYS + _MOST_TIMES_TEXT * max(0, packed_size - _SMALL)))


def _room(most: int) -> int:
    """Return a size limited by the free space of the temporary folder."""
    try:
        return min(most, max(LARGE, shutil.disk_usage(tempfile.gettempdir()).free))
    except OSError:
        return LARGE
