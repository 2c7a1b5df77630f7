"""Shared by tests of the micro-kernels: whether NVRTC and nvdisasm are installed, recorded SASS, probes."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from gpuprof.characterize.probes.library import probe_folder
from gpuprof.characterize.probes.probe import Kernel, Probe
from gpuprof.characterize.probes.probe_file import read_probe
from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.instruction import Instruction, parse_sass
from gpuprof.sass.tools.disassemble import find_disassemblers
from gpuprof.sass.tools.nvrtc import find_nvrtc

DATA = Path(__file__).parent / "data_kernels"
RECORDED = sorted(DATA.glob("*.sass"))


ALL_VARIANTS = bool(os.environ.get("GPUPROF_ALL_VARIANTS"))
"""Judge every variant of every kernel on every architecture, as before a release."""

needs_cuda_wheels = pytest.mark.usefixtures("cuda_wheels")
"""Skips a test if NVRTC or nvdisasm is missing, and marks it `compilers`."""


@cache
def why_not() -> str | None:
    """Return what is missing to compile and disassemble kernels; None if nothing is."""
    try:
        newest = find_nvrtc()[0]
    except EnvironmentProblem as problem:
        return f"{problem.message} ({problem.hint})"
    if newest.version < (13, 0):
        return f"{newest} does not know the newest targets"
    if not find_disassemblers() or find_disassemblers()[0].version < (13, 0):
        return "there is no nvdisasm of CUDA 13 (python -m pip install nvidia-cuda-nvdisasm)"
    return None


def recorded(name: str) -> tuple[Instruction, ...]:
    """What nvdisasm said of a kernel; the first line of the file names compiler, disassembler and parameters."""
    return parse_sass((DATA / f"{name}.sass").read_text(encoding="utf-8"))


def twin_named(name: str, folder: Path) -> Probe:
    """A probe of the tests, copied to where its header is, too."""
    place = folder / "twins"
    shutil.copytree(DATA / "twins", place, dirs_exist_ok=True)
    shutil.copy(probe_folder() / "probe.cuh", folder)
    return read_probe(place / f"{name}.yaml")


def kernel_of(probe: Probe) -> Kernel:
    assert probe.kernel is not None
    return probe.kernel
