"""Gets PyTorch programs to name or record what they launch: the environment in which every Python loads our part."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

INJECTED = Path(__file__).resolve().parent / "inject"
"""The folder that goes first on PYTHONPATH. It holds a sitecustomize, which Python runs before any program."""

MARK_FILE = "GPUPROF_MARK"
"""The variable that names the file in which our part reads what it is to mark."""


@dataclass(frozen=True, slots=True)
class Marked:
    """Parts of one step of a PyTorch program that are to be marked, so that ncu profiles only what they launch.

    `step`, `by` and `module` are those of a `StepNumber`; without a `module` the calls of every outermost one count.
    `units` are ranges that annotation opens around modules, `layers.0.linear1` or `layers.0.linear1 (backward)`, and
    `optimizer step`. A compiled module has none inside. With "nvtx" the range `MARK` is opened around each, for ncu's
    `--nvtx --nvtx-include gpuprof-chosen/`. With "profiler" cudaProfilerStart and cudaProfilerStop are called around
    it, for `--profile-from-start off`. Neither has been verified on a GPU.
    """

    step: int
    by: Literal["optimizer", "module"]
    units: tuple[str, ...]
    with_: Literal["nvtx", "profiler"]
    module: str = ""


def annotated(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program whose torch modules and operators are to be marked with NVTX ranges."""
    return {**environ, **annotation(environ)}


def annotation(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that `annotated` adds or changes; what was on PYTHONPATH stays behind our folder."""
    before = environ.get("PYTHONPATH")
    entries = [str(INJECTED)] + ([before] if before else [])
    return {"GPUPROF_ANNOTATE": "1", "PYTHONPATH": os.pathsep.join(entries)}


def marks_text(parts: Marked) -> str:
    """Return the content of the file from which our hook reads what to mark."""
    told = {
        "step": parts.step, "by": parts.by, "module": parts.module, "units": parts.units, "with": parts.with_,
    }  # fmt: skip
    return json.dumps(told)


def marking(place: Path) -> dict[str, str]:
    """Return the variables that make an annotated program mark the parts that a file names."""
    return {MARK_FILE: str(place.absolute())}


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
