"""What was worked out of programs, kept between runs in the user's cache folder, where it may be lost or broken.

An entry is a file named by the hash of what it follows from, compressed, behind a mark and its own hash. Whatever does
not fit that is as good as missing. `GPUPROF_CACHE=off`, or a folder that cannot be written, switches it off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpuprof.own_files import read_plain, write_whole

_MARK = b"gpuprof 1\n"
_DIGEST_BYTES = 32
MOST_BYTES = 256 * 2**20
"""When a run has written, the oldest entries are removed until the others take no more than this."""
_MOST_ENTRY = 64 * 2**20
_LEVEL = 1
_OFF = frozenset(("off", "0", "no", "false"))


class UserCache:
    """Entries in a folder, by key. `most_bytes` bounds all of them together."""

    __slots__ = ("_bounded", "_folder", "_most_bytes")

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._bounded = False

    def read(self, key: str, most: int) -> bytes | None:
        """Return an entry of up to `most` bytes; None where there is none that is whole."""
        if self._folder is None:
            return None
        try:
            data = read_plain(self._folder / key, _MOST_ENTRY)
        except OSError:
            return None
        return _content(data, most)

    def write(self, key: str, content: bytes) -> None:
        """Keep an entry; nobody sees it half written. What cannot be written is not kept."""
        if self._folder is None:
            return
        packed = zlib.compress(content, _LEVEL)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._folder / key, (_MARK, hashlib.sha256(packed).digest(), packed), mode=0o600)
            if not self._bounded:
                self._bounded = True
                _remove_oldest(self._folder, self._most_bytes)
        except OSError:
            self._folder = None


def key_of(*parts: bytes | str) -> str:
    """Return the key of what follows from these parts alone."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def user_cache() -> UserCache:
    """Return the user's cache, as the environment names it now."""
    return _cache_in(cache_folder(os.environ, sys.platform))


@cache
def _cache_in(folder: Path | None) -> UserCache:
    """Return the cache in a folder; None if the folder is a link."""
    linked = folder is not None and (folder.is_symlink() or folder.parent.is_symlink())
    return UserCache(None if linked else folder)


def cache_folder(environ: Mapping[str, str], platform: str) -> Path | None:
    """Return where entries lie; None where the user wants none, or has no such folder."""
    if environ.get("GPUPROF_CACHE", "").strip().lower() in _OFF:
        return None
    base = environ.get("LOCALAPPDATA" if platform == "win32" else "XDG_CACHE_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "gpuprof" / "programs"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return (
        home / {"darwin": "Library/Caches", "win32": "AppData/Local"}.get(platform, ".cache") / "gpuprof" / "programs"
    )


def _content(data: bytes, most: int) -> bytes | None:
    start = len(_MARK) + _DIGEST_BYTES
    packed = data[start:]
    if not data.startswith(_MARK) or hashlib.sha256(packed).digest() != data[len(_MARK) : start]:
        return None
    decoder = zlib.decompressobj()
    try:
        content = decoder.decompress(packed, most)
    except zlib.error:
        return None
    return content if decoder.eof else None


def _remove_oldest(folder: Path, most: int) -> None:
    """Remove the oldest entries, those of runs that were killed while writing among them."""
    entries = []
    with os.scandir(folder) as listing:
        for entry in listing:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                entries.append((status.st_mtime_ns, status.st_size, entry.path))
    held = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if held <= most:
            return
        with contextlib.suppress(OSError):
            Path(path).unlink()
            held -= size
