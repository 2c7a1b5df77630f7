"""Sessions of real reports, each made once for all tests of a process that only look at them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import gpuprof
from gpuprof.notebook import LoadedSession


@cache
def loaded(*paths: Path) -> LoadedSession:
    """Return the session of a report or trace, or of several."""
    return gpuprof.load(*paths)
