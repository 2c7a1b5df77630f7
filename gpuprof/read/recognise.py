"""Whether a file is one to read and no program, by what is in it; nothing of a stream is used up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuprof.errors import InputError
from gpuprof.read.identify import Look, look_at
from gpuprof.read.ncu_csv import has_header
from gpuprof.read.readers import KINDS

_MOST_TEXT = 2**20
"""So many characters of a text are searched for the header of ncu's CSV, which follows what the program printed."""
_CALLED = {
    "ncu-rep": "an ncu report",
    "no ncu-rep": "an ncu report",
    "git-lfs": "a Git LFS pointer",
    "nsys-rep": "an Nsight Systems report",
    "nsys-sqlite": "an Nsight Systems export",
    "measured": "a measured file",
    "torch-trace": "a trace",
    "page": "a gpuprof page",
    "session": "a gpuprof session",
    "csv": "an ncu CSV",
    "ncu-text": "output of ncu",
}
_SURE: dict[str, Callable[[Look], bool]] = {
    "session": lambda look: b'"schema_version"' in look.start,
    "csv": lambda look: not look.start.startswith(b"#!") and has_header(look.text[:_MOST_TEXT]),
}
"""What tells kinds that take any text, or any JSON."""


def recognised(name: str) -> str | None:
    """Return what a file is that is read and not run, such as "an ncu report"; None for all else."""
    path = Path(name)
    try:
        if not path.is_file():
            return None
        look = look_at(path, name)
        kind = next(kind.kind for kind in KINDS if kind.fits(look))
        return _CALLED.get(kind) if _SURE.get(kind, _always)(look) else None
    except (InputError, OSError, ValueError):
        return None


def _always(look: Look) -> bool:  # noqa: ARG001
    return True
