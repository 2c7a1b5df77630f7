"""Whether a file is one to read and no program, by its content; nothing of a stream is used up."""

from __future__ import annotations

from pathlib import Path

from gpuprof.errors import InputError
from gpuprof.read.identify import look_at
from gpuprof.read.readers import KINDS

_MOST = 2**26
"""So many bytes of a file are looked at."""


def recognised(name: str, most: int = _MOST) -> str | None:
    """Return what a file is called that is read and not run, such as "an ncu report"; None for all else."""
    path = Path(name)
    try:
        # Files without a size, as in /proc, may never end.
        if not path.is_file() or not path.stat().st_size:
            return None
        look = look_at(path, name, most)
        return next(kind.called for kind in KINDS if kind.fits(look))
    except (InputError, OSError, ValueError):
        return None
