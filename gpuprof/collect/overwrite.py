"""Whether a file may be written: what exists is replaced only with the user's leave, and an input never."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gpuprof.errors import UsageError


def refuse_overwrite(paths: Iterable[Path], inputs: Iterable[str] = (), *, force: bool) -> None:
    """Raise UsageError if a file would be replaced without --force, or an input or a folder in any case."""
    sources = [Path(name) for name in inputs if _exists(Path(name))]
    for path in paths:
        if _exists(path) and path.is_dir():
            raise UsageError(f"{path} is a folder", f"name a file in it with -o, such as {path / 'report.html'}")
        if _exists(path) and any(path.samefile(source) for source in sources):
            raise UsageError(f"{path} is an input and cannot be the output", "choose another name with -o")
        if os.path.lexists(path) and not force:
            raise UsageError(f"{path} already exists", "choose another name, or add --force")


def _exists(path: Path) -> bool:
    """Tell whether a file is there; a name that is too long names none."""
    try:
        return path.exists()
    except OSError:
        return False
