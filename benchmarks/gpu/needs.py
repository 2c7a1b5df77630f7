"""What the machine has of what steps need: tools, packages of Python, the right to read counters; and the versions."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gpuprof import __version__
from gpuprof.collect.doctor import PROBLEM, examine
from gpuprof.collect.installation import choose_ncu
from gpuprof.collect.machine import InstalledGpu, gpus_here, version_text
from gpuprof.collect.nvcc import find_nvcc
from gpuprof.errors import EnvironmentProblem
from gpuprof.needed_packages import needed_packages
from gpuprof.sass.tools.disassemble import find_disassemblers
from gpuprof.sass.tools.nvrtc import find_nvrtc

NCU, NVCC, GPU, COUNTERS, NVRTC = "ncu", "nvcc", "gpu", "counters", "nvrtc"
TORCH, TRITON, CUPY, JAX = FRAMEWORKS = ("torch", "triton", "cupy", "jax")
NEEDS = (NCU, NVCC, GPU, COUNTERS, NVRTC, *FRAMEWORKS)
"""What a step can need."""
_DISTRIBUTIONS = (*needed_packages(), "torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "jax")
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What was found here. `missing` has the reason for each need that is not met."""

    python: str
    ncu: Path | None
    nvcc: Path | None
    gpu: InstalledGpu | None
    missing: Mapping[str, str]
    versions: Mapping[str, str]

    def why_not(self, needs: Sequence[str]) -> str | None:
        """Return what of these is missing and why; None where nothing is."""
        return "; ".join(self.missing[need] for need in needs if need in self.missing) or None


def find_tools(environ: Mapping[str, str]) -> Tools:
    """Look for everything."""
    missing = {name: f"Python has no {name}" for name in FRAMEWORKS if find_spec(name) is None}
    versions = {
        "gpuprof": __version__, "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(), **dict(_versions_of(_DISTRIBUTIONS)),
    }  # fmt: skip
    gpu = next(iter(gpus_here(environ)), None)
    if gpu is None:
        missing[GPU] = "nvidia-smi names no GPU"
    else:
        versions["driver"] = gpu.driver
    for check in examine(environ):
        if check.name == "counters" and check.state == PROBLEM:
            missing[COUNTERS] = check.result
    _find_nvrtc(missing, versions)
    return Tools(
        python=sys.executable,
        ncu=_ncu(environ, missing, versions),
        nvcc=_nvcc(environ, missing, versions),
        gpu=gpu,
        missing=missing,
        versions=versions,
    )


def _versions_of(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield those packages that this Python has, each with its version."""
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield package, importlib.metadata.version(package)


def _ncu(environ: Mapping[str, str], missing: dict[str, str], versions: dict[str, str]) -> Path | None:
    try:
        ncu = choose_ncu(environ)
    except EnvironmentProblem as problem:
        missing[NCU] = problem.message
        return None
    versions["ncu"] = version_text(ncu.version)
    return ncu.path


def _nvcc(environ: Mapping[str, str], missing: dict[str, str], versions: dict[str, str]) -> Path | None:
    try:
        nvcc = find_nvcc(environ)
    except EnvironmentProblem as problem:
        missing[NVCC] = problem.message
        return None
    printed = subprocess.run(
        [nvcc, "--version"], env=dict(environ), capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    ).stdout
    release = re.search(r"release (\d+\.\d+)", printed)
    versions["nvcc"] = release[1] if release is not None else "unknown"
    return nvcc


def _find_nvrtc(missing: dict[str, str], versions: dict[str, str]) -> None:
    """Note the newest NVRTC, which micro-kernels need together with a disassembler."""
    try:
        versions["nvrtc"] = version_text(find_nvrtc()[0].version)
    except EnvironmentProblem as problem:
        missing[NVRTC] = problem.message
        return
    if not find_disassemblers():
        missing[NVRTC] = "nvdisasm was not found"


def environment(scratch: Path, tree: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for all that runs: neutral names and folders, this gpuprof, the user's own packages."""
    import site

    variables = dict(os.environ if environ is None else environ)
    base = site.getuserbase()
    for name in ("HOSTNAME", "SUDO_USER", "MAIL", "OLDPWD", "SSH_CLIENT", "SSH_CONNECTION", "XDG_CONFIG_HOME"):
        variables.pop(name, None)
    return {
        **variables,
        "HOME": str(scratch / "home"), "USER": "user", "LOGNAME": "user", "TMPDIR": str(scratch / "tmp"),
        "PYTHONUSERBASE": base, "PYTHONUNBUFFERED": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "GPUPROF_SPECS": str(scratch / "specs"),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(tree), variables.get("PYTHONPATH", "")))),
    }  # fmt: skip
