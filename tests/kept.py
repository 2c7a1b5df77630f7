"""What tests keep from one run to the next: answers that took long, each by a hash of all that it follows from."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

PLACE = Path(os.environ.get("GPUPROF_TEST_CACHE") or Path(__file__).resolve().parents[1] / ".test-cache")
"""A folder of the checkout, or the one that GPUPROF_TEST_CACHE names, such as one that CI keeps."""
EVERYTHING = bool(os.environ.get("GPUPROF_ALL_VARIANTS"))
"""Check all there is, and judge all of it anew; only what tools made is taken from here."""
_DAY_S = 24 * 3600.0
_UNUSED_S = 30 * _DAY_S
_MOST_BYTES = 600 * 2**20
_MARK_BYTES = 32


def kept(kind: str, key: str, make: Callable[[], bytes | None]) -> bytes | None:
    """Return what was kept under the key; else what is made, and keep it unless it is None."""
    content = read(kind, key)
    if content is None:
        content = make()
        if content is not None:
            write(kind, key, content)
    return content


def judged(kind: str, key: str | None, judge: Callable[[], list[str]]) -> list[str]:
    """Return words about code, from what was kept where the key says all that they follow from."""
    if key is None or EVERYTHING:
        return judge()
    stored = kept(kind, key, lambda: json.dumps(judge()).encode())
    assert stored is not None
    return [str(word) for word in json.loads(stored)]


def read(kind: str, key: str) -> bytes | None:
    """Return what was kept, None where there is nothing whole."""
    file = _file(kind, key)
    try:
        stored = file.read_bytes()
        content = zlib.decompress(stored[_MARK_BYTES:])
        if time.time() - file.stat().st_mtime > _DAY_S:
            os.utime(file)
    except (OSError, zlib.error):
        return None
    return content if hashlib.sha256(content).digest() == stored[:_MARK_BYTES] else None


def write(kind: str, key: str, content: bytes) -> None:
    """Keep it; several processes may do so at once. Where the disk is full, nothing is kept."""
    file = _file(kind, key)
    draft = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.draft")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(hashlib.sha256(content).digest() + zlib.compress(content, 1))
        draft.replace(file)
    except OSError:
        with suppress(OSError):
            draft.unlink()


def key_of(*parts: object) -> str:
    """Return the hash of parts whose repr says all of them."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@lru_cache(maxsize=64)
def hash_of(file: Path) -> str:
    """Return the hash of a file that no test changes, such as a compiler."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(2**24):
            digest.update(piece)
    return digest.hexdigest()


def forget_the_old() -> None:
    """Drop what no run has used for a month, and the oldest beyond a size that is bearable."""
    now, total = time.time(), 0
    with suppress(OSError):  # another run may do the same at this moment
        files = [(file.stat(), file) for file in PLACE.rglob("*") if file.is_file()]
        for status, file in sorted(files, key=lambda entry: -entry[0].st_mtime):
            total += status.st_size
            if now - status.st_mtime > _UNUSED_S or total > _MOST_BYTES:
                file.unlink()


def _file(kind: str, key: str) -> Path:
    return PLACE / kind / key[:2] / key
