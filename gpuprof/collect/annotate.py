"""Gets PyTorch programs to name or record what they launch: the environment in which every Python loads our part."""

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


def surveyed(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment for a program whose work with torch is to be recorded by torch's own profiler.

    Each process that uses CUDA leaves `torch-<pid>.pt.trace.json.gz` in the folder, which must be there. Where that is
    not all of its work, or there is none after a failure, `torch-<pid>.note` says so in one line.
    """
    return {**environ, **survey_variables(environ, folder)}


def survey_variables(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables that `surveyed` adds or changes.

    A recording ends after 120 s or 500 000 operators; GPUPROF_SURVEY_SECONDS and GPUPROF_SURVEY_OPERATORS change that.
    """
    return {"GPUPROF_SURVEY_TO": str(folder.absolute()), "PYTHONPATH": annotation(environ)["PYTHONPATH"]}
