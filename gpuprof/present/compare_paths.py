"""Where a source file of a report lies in the repository: by --path-map or the root that git tells, or nowhere."""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from gpuprof.present.compare_options import CompareOptions
from gpuprof.present.text import printable

_DRIVE = re.compile(r"[A-Za-z]:(?=/|$)")
_LONGEST = 1000
"""A path with more characters is none of a repository: Linux opens none with more than 4,096 bytes."""
_LAST_LINE = 2**31 - 1
"""What readers of line numbers hold at most: a signed 32-bit integer."""


class Place(NamedTuple):
    """A line of a file. `file` is what a report says, or what the repository calls it."""

    file: str
    line: int


def place_in_repository(place: Place, options: CompareOptions) -> Place | None:
    """Return a place with the path of its file in the repository; None where it lies outside, or nothing tells."""
    path = path_in_repository(place.file, options)
    return Place(path, place.line) if path is not None and 1 <= place.line <= _LAST_LINE else None


def path_in_repository(file: str, options: CompareOptions) -> str | None:
    """Return the path of a file below the root of the repository, with slashes; None where it is not known to be there.

    The first --path-map that fits is taken. What it leads to, and a path that a report has without a root, is relative
    to the root of the repository; an absolute path has to lie below that root.
    """
    if not file or len(file) > _LONGEST or printable(file) != file:
        return None
    path = _normal(file)
    for known in options.path_maps:
        rest = _below(path, _normal(known.source))
        if rest is not None:
            path = _normal(posixpath.join(known.target.replace("\\", "/"), rest))
            break
    if _is_absolute(path):
        inside = _below(path, _normal(options.root)) if options.root else None
        return inside or None
    return path if path != "." and path.split("/", 1)[0] != ".." else None


def place_of(text: str) -> Place | None:
    """Read "file:line", as a comparison has its locations; None for anything else."""
    file, _, number = text.rpartition(":")
    if not file or not number.isascii() or not number.isdigit() or len(number) > len(str(_LAST_LINE)):
        return None
    return Place(file, int(number))


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
