"""The names of files without their folders."""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePosixPath, PureWindowsPath


@lru_cache(maxsize=1024)
def file_name(path: str) -> str:
    """Drop the folders of a path of either kind of system."""
    name = PureWindowsPath(path).name if "\\" in path and "/" not in path else PurePosixPath(path).name
    return name or path
