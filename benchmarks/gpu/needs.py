"""What the machine has of what steps need: tools, packages of Python, the right to read counters; and the versions."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuprof import __version__
from gpuprof.collect.doctor import PROBLEM, examine
from gpuprof.collect.installation import choose_ncu
from gpuprof.collect.machine import InstalledGpu, gpus_here, version_text
from gpuprof.collect.nvcc import find_nvcc
from gpuprof.errors import EnvironmentProblem, UsageError

NCU, NVCC, GPU, COUNTERS, GPUPROF = "ncu", "nvcc", "gpu", "counters", "gpuprof"
TORCH, TRITON, CUPY, JAX, NVRTC = "torch", "triton", "cupy", "jax", "nvrtc"
NEEDS = (NCU, NVCC, GPU, COUNTERS, GPUPROF, TORCH, TRITON, CUPY, JAX, NVRTC)
"""What a step can need. `gpuprof` are the packages that its commands import."""
_MODULES: Mapping[str, tuple[str, ...]] = {
    GPUPROF: ("click", "jinja2", "matplotlib", "numpy", "rich", "yaml"),
    TORCH: ("torch",),
    TRITON: ("triton",),
    CUPY: ("cupy",),
    JAX: ("jax",),
    NVRTC: (),
}
_ASK = """
import importlib.metadata, importlib.util, json, sys
by_module = importlib.metadata.packages_distributions() if hasattr(importlib.metadata, "packages_distributions") else {}
def version(name):
    try:
        return importlib.metadata.version((by_module.get(name) or [name])[0])
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
found = {name: version(name) for name in sys.argv[1:] if importlib.util.find_spec(name)}
try:
    from gpuprof.code.tools.nvrtc import find_nvrtc
    from gpuprof.code.tools.disassemble import find_disassemblers
    assert find_disassemblers()
    found["nvrtc"] = ".".join(map(str, find_nvrtc()[0].version))
except Exception:
    pass
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "prefix": sys.prefix, "found": found}))
"""
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What was found here. `missing` has the reason for each need that is not met, `prefix` is the Python's folder."""

    python: str
    prefix: str
    ncu: Path | None
    nvcc: Path | None
    gpu: InstalledGpu | None
    ncu_help: str
    missing: Mapping[str, str]
    versions: Mapping[str, str]

    def why_not(self, needs: Sequence[str]) -> str | None:
        """Return what of these is missing and why; None where nothing is."""
        return "; ".join(self.missing[need] for need in needs if need in self.missing) or None


def find_tools(environ: Mapping[str, str], ncu: str | None, python: str) -> Tools:
    """Look for everything. Raises UsageError for a Python that does not answer, EnvironmentProblem for a named ncu."""
    missing, versions = {}, {"gpuprof": __version__, "system": f"{platform.system()} {platform.machine()}"}
    gpu = next(iter(gpus_here(environ)), None)
    if gpu is None:
        missing[GPU] = "nvidia-smi names no GPU"
    else:
        versions["driver"] = gpu.driver
    found_ncu = _ncu(environ, ncu, missing, versions)
    found_nvcc = _nvcc(environ, missing, versions)
    for check in examine(environ):
        if check.name == "counters" and check.state == PROBLEM:
            missing[COUNTERS] = check.result
    modules = {module for names in _MODULES.values() for module in names}
    answer = _asked(python, sorted(modules), environ)
    versions |= {"python": answer["python"], **answer["found"]}
    for need, names in _MODULES.items():
        gone = [name for name in names or (need,) if name not in answer["found"]]
        if gone:
            missing[need] = f"Python has no {', '.join(gone)}"
    help_text = _said([str(found_ncu), "--help"], environ) if found_ncu is not None else ""
    return Tools(
        python=python,
        prefix=answer["prefix"],
        ncu=found_ncu,
        nvcc=found_nvcc,
        gpu=gpu,
        ncu_help=help_text,
        missing=missing,
        versions=versions,
    )


def _ncu(
    environ: Mapping[str, str], named: str | None, missing: dict[str, str], versions: dict[str, str]
) -> Path | None:
    try:
        ncu = choose_ncu(environ, named)
    except EnvironmentProblem as problem:
        if named is not None:
            raise
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
    release = re.search(r"release (\d+\.\d+)", _said([str(nvcc), "--version"], environ))
    versions["nvcc"] = release[1] if release is not None else "unknown"
    return nvcc


def _asked(python: str, modules: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
    text = _said([python, "-c", _ASK, *modules], environ)
    try:
        return dict(json.loads(text.strip().splitlines()[-1]))
    except (ValueError, IndexError) as error:
        raise UsageError(f"{python} does not answer as a Python does", "--python PATH names another one") from error


def _said(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return what a program prints; nothing where it cannot be run."""
    try:
        done = subprocess.run(
            command, env=dict(environ), capture_output=True, timeout=_PATIENCE_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


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
