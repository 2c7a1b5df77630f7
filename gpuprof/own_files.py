"""Safe access to files with predictable names: links are not followed, and pipes and devices are refused.

In a folder that other users can write to, someone may have put a link, a pipe or a device under such a name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from gpuprof.errors import UsageError

_NOT_PLAIN = "It is not a regular file"


def open_plain(path: Path, mode: str) -> IO[bytes]:
    """Open a regular file. Raises OSError as `open` does, and for a link, a pipe or a device."""
    try:
        file = open(path, mode, opener=_opened)  # noqa: SIM115
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = "It is a link"
        elif error.errno == errno.ENXIO:  # a pipe that nobody reads from
            error.strerror = _NOT_PLAIN
        raise
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, _NOT_PLAIN, str(path))


def _opened(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


def read_plain(path: Path, most: int = -1) -> bytes:
    """Return the contents of a regular file, at most `most` bytes. Raises OSError as `open_plain` does."""
    with open_plain(path, "rb") as file:
        return file.read(most)


def draft_of(path: Path) -> Path:
    """Return an unpredictable name in the same folder for a draft of the file. Open it with mode "x"."""
    return path.with_name(f".gpuprof-{os.urandom(8).hex()}.tmp")


def write_whole(path: Path, content: bytes | Iterable[bytes], mode: int = 0o666) -> None:
    """Write a file atomically, replacing a file, link or pipe of that name. Raises OSError."""
    draft = draft_of(path)
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.writelines([content] if isinstance(content, bytes) else content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def refuse_linked(folder: Path) -> None:
    """Raise UsageError if a folder that gpuprof named itself is a link."""
    if os.path.islink(folder):  # noqa: PTH114
        raise UsageError(f"{folder} is a link", "remove it, or choose another folder with -o")


def make_folder(folder: Path, *, ours: bool) -> bool:
    """Make a folder if it is missing, and return whether it was. `ours`: gpuprof named it, so it must not be a link.

    Raises OSError, and UsageError as `refuse_linked` does.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if ours:
            refuse_linked(folder)
        if not folder.is_dir():
            raise
        return False
    return True
