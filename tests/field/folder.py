"""The folder of reports of other people's programs that GPUPROF_FIELD_REPORTS names."""

from __future__ import annotations

import os
from pathlib import Path

_NAMED = os.environ.get("GPUPROF_FIELD_REPORTS")
REPORTS = Path(_NAMED) if _NAMED else None
"""None if no folder is named: then no test of this package is collected."""


def folder() -> Path:
    """Return the folder; only for tests of this package, which run only if there is one."""
    assert REPORTS is not None, "GPUPROF_FIELD_REPORTS names no folder of reports"
    return REPORTS


def report(name: str) -> Path:
    """Return a file of the folder."""
    path = folder() / name
    assert path.exists(), f"{path} is missing; GPUPROF_FIELD_REPORTS names another folder than this test knows"
    return path
