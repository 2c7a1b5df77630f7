"""Paths of source files: relative to their repository, so that they name the same file everywhere; else the name."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from gpuprof.privacy.texts import MASK, clean_text, is_in_home, last_part

_DRIVE = re.compile(r"[A-Za-z]:(?=/|$)")
_LONGEST = 1000
"""A path with more characters is none of a repository: Linux opens none with more than 4,096 bytes."""
_MOST_FILES = 2000
"""Files that are looked for on this machine, of one session."""


class PathMap(NamedTuple):
    """What --path-map FROM=TO says: what lies below the folder `source` in a report lies below `target` here."""

    source: str
    target: str


def repository_root(folder: Path | None = None) -> str | None:
    """Return the root of the repository that a folder is in, the working folder by default; None if it is in none."""
    try:
        here = folder if folder is not None else Path.cwd()
    except OSError:
        return None
    return next((str(place) for place in (here, *here.parents) if os.path.lexists(place / ".git")), None)


def path_in_repository(file: str, root: str | None, path_maps: Sequence[PathMap] = ()) -> str | None:
    """Return the path of a file below the root of the repository, with slashes; None where it is not known to be there.

    The first of `path_maps` that fits is taken. What it leads to, and a path that a report has without a root, is
    relative to the root of the repository; an absolute path has to lie below that root.
    """
    if not file or len(file) > _LONGEST or not file.isprintable():
        return None
    path = _normal(file)
    for known in path_maps:
        rest = _below(path, _normal(known.source))
        if rest is not None:
            path = _normal(posixpath.join(known.target.replace("\\", "/"), rest))
            break
    if _is_absolute(path):
        inside = _below(path, _normal(root)) if root else None
        return inside or None
    return path if path != "." and path.split("/", 1)[0] != ".." and not path.startswith(MASK) else None


class SourceFiles:
    """The source files of a session, as they are kept: found in the repository of the working folder, or in their own.

    A path that a report has without a root stays, unless it leads out of its folder. Of a file in no repository the
    name stays, behind `…/`, and a number where another one has the same.
    """

    def __init__(self, path_maps: Sequence[PathMap] = ()) -> None:
        self._path_maps = path_maps
        self._kept: dict[str, str] = {}
        self._alone: Counter[str] = Counter()

    def kept(self, file: str) -> str:
        """Return the path that is kept of a file."""
        if file and file not in self._kept:
            self._kept[file] = self._in_repository(file) or self._name(file)
        return self._kept.get(file, file)

    def _in_repository(self, file: str) -> str | None:
        if file.startswith(MASK) or (not self._path_maps and last_part(file) == file):
            return clean_text(file)
        path = path_in_repository(file, self._root, self._path_maps)
        if path is None and len(self._kept) < _MOST_FILES:
            path = self._found(file)
        if path is None or is_in_home(path):
            return None
        return clean_text(file if _normal(file) == path else path)

    def _name(self, file: str) -> str:
        name = clean_text(last_part(file))
        self._alone[name] += 1
        number = self._alone[name]
        return f"{MASK}{number if number > 1 else ''}/{name}"

    @cached_property
    def _root(self) -> str | None:
        return repository_root()

    def _found(self, file: str) -> str | None:
        """Return the path of a file below the root of its repository, or the longest end of it that is a file here."""
        if len(file) > _LONGEST or not file.isprintable():
            return None
        path = _normal(file)
        if path.startswith("/") and ".." not in path.split("/") and _is_file(path):
            own = repository_root(Path(path).parent)
            return _below(path, _normal(own)) if own is not None else None
        if self._root is None:
            return None
        root = self._root
        return next((end for end in _ends(path) if _is_file(os.path.join(root, end))), None)  # noqa: PTH118


def _ends(path: str) -> Iterator[str]:
    """Yield the ends of a path, the longest first."""
    parts = [part for part in _DRIVE.sub("", path).split("/") if part not in ("", ".", "..", "~")]
    return ("/".join(parts[first:]) for first in range(len(parts)))


def _is_file(path: str) -> bool:
    try:
        return os.path.isfile(path)  # noqa: PTH113
    except (OSError, ValueError):
        return False


def _normal(path: str) -> str:
    """Return a path of either kind of system with slashes and without `.`, `..` and doubled slashes inside."""
    if "\\" in path and ("/" not in path or re.match(r"[A-Za-z]:\\", path)):
        path = path.replace("\\", "/")
    normal = posixpath.normpath(path)
    return f"/{normal.lstrip('/')}" if normal.startswith("//") else normal


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _DRIVE.match(path) is not None


def _below(path: str, folder: str) -> str | None:
    """Return what is left of a path below a folder; None where it lies elsewhere. Drives tell no case apart."""
    if folder == ".":
        return None if _is_absolute(path) else path
    start = folder.rstrip("/") + "/"
    head, rest = path[: len(start)], path[len(start) :]
    fits = head.lower() == start.lower() if _DRIVE.match(folder) else head == start
    return rest if fits and rest else None
