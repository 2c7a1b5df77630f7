"""Gets PyTorch programs to name what they launch: the environment in which every Python loads our ranges for torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

INJECTED = Path(__file__).resolve().parent / "inject"
"""The folder that goes first on PYTHONPATH. It holds a sitecustomize, which Python runs before any program."""


def annotated(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program whose torch modules and operators are to be marked with NVTX ranges."""
    return {**environ, **annotation(environ)}


def annotation(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that `annotated` adds or changes; what was on PYTHONPATH stays behind our folder."""
    before = environ.get("PYTHONPATH")
    entries = [str(INJECTED)] + ([before] if before else [])
    return {"GPUPROF_ANNOTATE": "1", "PYTHONPATH": os.pathsep.join(entries)}


def survey_variables(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables under which every Python records the work of torch into a folder."""
    return {"GPUPROF_SURVEY_TO": str(folder), "PYTHONPATH": annotation(environ)["PYTHONPATH"]}
