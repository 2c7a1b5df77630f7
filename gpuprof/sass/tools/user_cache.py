"""Results of programs, kept between runs in the user's cache folder, where they may be lost or damaged.

An entry is a compressed file, named by the hash of its inputs. `GPUPROF_CACHE=off`, or a folder that cannot be written,
switches the cache off. The second look at a report with source takes 0.7 of the first one's processor time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from functools import cache
from pathlib import Path

import msgspec

from gpuprof.own_files import read_plain, write_whole

MOST_BYTES = 256 * 2**20
"""When a run has written, the oldest entries are removed until the others take no more than this."""
_MOST_ENTRY = 64 * 2**20
_LEVEL = 1


class UserCache:
    """Entries in a folder, by key. `most_bytes` bounds all of them together."""

    __slots__ = ("_bounded", "_folder", "_most_bytes")

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._bounded = False

    def read(self, key: str, most: int) -> bytes | None:
        """Return an entry of up to `most` bytes; None if there is none that is whole."""
        if self._folder is None:
            return None
        decoder = zlib.decompressobj()
        try:
            content = decoder.decompress(read_plain(self._folder / key, _MOST_ENTRY), most)
        except (OSError, zlib.error):
            return None
        return content if decoder.eof else None

    def write(self, key: str, content: bytes) -> None:
        """Keep an entry; nobody sees it half written. An entry that cannot be written is not kept."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._folder / key, zlib.compress(content, _LEVEL), mode=0o600)
            if not self._bounded:
                self._bounded = True
                _remove_oldest(self._folder, self._most_bytes)
        except OSError:
            self._folder = None


def key_of(*parts: bytes | str) -> str:
    """Return the key of a result that depends on these parts alone."""
    return hashlib.sha256(msgspec.msgpack.encode(parts)).hexdigest()


def user_cache() -> UserCache:
    """Return the user's cache, as the environment names it now."""
    if os.environ.get("GPUPROF_CACHE") == "off":
        return UserCache(None)
    return _cache_below(os.environ.get("XDG_CACHE_HOME", ""))


@cache
def _cache_below(base: str) -> UserCache:
    """Return the cache in a folder for caches, by default ~/.cache; no cache if it is a link, or there is no home."""
    try:
        folder = (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "gpuprof"
    except RuntimeError:
        return UserCache(None)
    entries = folder / "programs"
    return UserCache(None if folder.is_symlink() or entries.is_symlink() else entries)


def _remove_oldest(folder: Path, most: int) -> None:
    """Remove the oldest entries, those of runs that were killed while writing among them."""
    entries = []
    with os.scandir(folder) as listing:
        for entry in listing:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                entries.append((status.st_mtime_ns, status.st_size, entry.path))
    size_of_all = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if size_of_all <= most:
            return
        with contextlib.suppress(OSError):
            Path(path).unlink()
            size_of_all -= size
