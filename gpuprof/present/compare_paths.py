"""Where a source file of a report lies in the repository: by --path-map or the root that git tells, or nowhere."""

from __future__ import annotations

from typing import NamedTuple

from gpuprof.present.compare_options import CompareOptions
from gpuprof.privacy.source_files import path_in_repository

_LAST_LINE = 2**31 - 1
"""What readers of line numbers hold at most: a signed 32-bit integer."""


class Place(NamedTuple):
    """A line of a file. `file` is what a report says, or what the repository calls it."""

    file: str
    line: int


def place_in_repository(place: Place, options: CompareOptions) -> Place | None:
    """Return a place with the path of its file in the repository; None where it lies outside, or nothing tells."""
    path = path_in_repository(place.file, options.root, options.path_maps)
    return Place(path, place.line) if path is not None and 1 <= place.line <= _LAST_LINE else None


def place_of(text: str) -> Place | None:
    """Read "file:line", as a comparison has its locations; None for anything else."""
    file, _, number = text.rpartition(":")
    if not file or not number.isascii() or not number.isdigit() or len(number) > len(str(_LAST_LINE)):
        return None
    return Place(file, int(number))
