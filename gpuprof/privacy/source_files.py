"""Shorten the paths of source files to their path in the repository, or to their name outside one."""

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
"""Longest path that is looked up. Linux opens none of more than 4,096 bytes."""
_MOST_FILES = 2000
"""Maximum number of files per session that are looked up on this machine."""


class PathMap(NamedTuple):
    """--path-map FROM=TO: files below the folder `source` in a report are below `target` here."""

    source: str
    target: str


def repository_root(folder: Path | None = None) -> str | None:
    """Return the root of the repository around a folder (default: the working folder); None outside one."""
    try:
        here = folder if folder is not None else Path.cwd()
    except OSError:
        return None
    return next((str(place) for place in (here, *here.parents) if os.path.lexists(place / ".git")), None)


def path_in_repository(file: str, root: str | None, path_maps: Sequence[PathMap] = ()) -> str | None:
    """Return a file's path relative to the repository root, with slashes; None if it is not known to be inside.

    The first matching path map applies. Its result, and any relative path in a report, counts as relative to the
    repository root; an absolute path must be below that root.
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
    """The shortened source paths of one session.

    A file is looked up in the repository of the working folder, then in its own. Relative paths stay unless they leave
    their folder. A file outside a repository becomes `…/NAME`, or `…2/NAME` for a second file of that name.
    """

    def __init__(self, path_maps: Sequence[PathMap] = ()) -> None:
        self._path_maps = path_maps
        self._kept: dict[str, str] = {}
        self._alone: Counter[str] = Counter()

    def kept(self, file: str) -> str:
        """Return the shortened path of a file."""
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
        """Return the path in the file's own repository, or its longest suffix that is a file in ours."""
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
    """Yield the suffixes of a path, longest first."""
    parts = [part for part in _DRIVE.sub("", path).split("/") if part not in ("", ".", "..", "~")]
    return ("/".join(parts[first:]) for first in range(len(parts)))


def _is_file(path: str) -> bool:
    try:
        return os.path.isfile(path)  # noqa: PTH113
    except (OSError, ValueError):
        return False


def _normal(path: str) -> str:
    """Return a normalized POSIX or Windows path with slashes."""
    if "\\" in path and ("/" not in path or re.match(r"[A-Za-z]:\\", path)):
        path = path.replace("\\", "/")
    normal = posixpath.normpath(path)
    return f"/{normal.lstrip('/')}" if normal.startswith("//") else normal


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _DRIVE.match(path) is not None


def _below(path: str, folder: str) -> str | None:
    """Return a path relative to a folder; None if it is elsewhere. Windows paths ignore case."""
    if folder == ".":
        return None if _is_absolute(path) else path
    start = folder.rstrip("/") + "/"
    head, rest = path[: len(start)], path[len(start) :]
    fits = head.lower() == start.lower() if _DRIVE.match(folder) else head == start
    return rest if fits and rest else None
