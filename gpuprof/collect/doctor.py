"""Everything that collecting needs, checked: what there is, whether it is good, and what to type where it is not."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuprof.collect.failure_table import PERMISSION_FIX
from gpuprof.collect.installation import INSTALL_HINT, OLDEST, Ncu, choose_from, find_ncu
from gpuprof.collect.machine import DRIVER_BY_CUDA, InstalledGpu, Machine, gpus_here, version_text
from gpuprof.errors import EnvironmentProblem
from gpuprof.needed_packages import install_command, missing_packages

OK, NOTE, PROBLEM, UNKNOWN = "ok", "note", "problem", "unknown"
"""A note is worth knowing and stands in nobody's way."""
_ADMIN_CAPABILITY = 21
"""CAP_SYS_ADMIN's bit (linux/capability.h)."""
_PACKAGES = (
    "nvidia-ml-py",
    "nvtx",
    "torch",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-nvdisasm",
)
"""Optional Python packages whose versions are listed."""
_OF_CUDA_13 = {"cupy-cuda13x": "cupy-cuda12x", "nvidia-cuda-nvrtc": "nvidia-cuda-nvrtc-cu12"}
"""Packages with which a GPU is measured, and what does the same with a driver of CUDA 12."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `state` is ok, note, problem or unknown; `fix` says what to type, if anything."""

    name: str
    state: str
    result: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """What the checks look at."""

    machine: Machine
    environ: Mapping[str, str]
    gpus: tuple[InstalledGpu, ...]
    ncus: tuple[Ncu, ...]


def examine(environ: Mapping[str, str], machine: Machine | None = None) -> list[Check]:
    """Run every check, in the order in which they explain one another."""
    machine = machine or Machine()
    host = Host(machine, environ, gpus_here(environ), ncus=find_ncu(environ, machine))
    return [check for look in _CHECKS for check in look(host)]


def _driver(host: Host) -> Iterator[Check]:
    version = host.machine.driver()
    if version is not None:
        yield Check("driver", OK, f"NVIDIA {version}")
    elif host.gpus:
        yield Check("driver", OK, f"NVIDIA {host.gpus[0].driver} (from nvidia-smi)")
    else:
        fix = "use a machine with an NVIDIA GPU and its driver; in a container: docker run --gpus all"
        yield Check("driver", PROBLEM, "no NVIDIA driver is loaded; reports can be read without it", fix=fix)


def _gpus(host: Host) -> Iterator[Check]:
    for gpu in host.gpus:
        yield Check("GPU", OK, f"{gpu.name}, compute capability {gpu.compute_capability}")
        if gpu.mig:
            result = "MIG is on: shared units have no counters, and clocks cannot be locked"
            yield Check("MIG", NOTE, result, fix="sudo nvidia-smi -mig 0, or go without L2 and DRAM counters")
        if gpu.persistence is False:
            result = "persistence mode is off: the driver is loaded anew for each run, which takes seconds"
            yield Check("persistence", NOTE, result, fix="sudo nvidia-smi -pm 1")
        if re.search(r"\bGRID\b|\bvGPU\b|-\d+[ABCQ]$", gpu.name):
            yield Check(
                "vGPU", PROBLEM, f"{gpu.name} is a virtual GPU", fix="enable profiling of this vGPU on the host"
            )
    if not host.gpus:
        fix = "" if host.machine.driver_version() is None else "nvidia-smi -L"
        yield Check("GPU", UNKNOWN, "nvidia-smi lists none", fix=fix)


def _ncu(host: Host) -> Iterator[Check]:
    try:
        chosen = choose_from(host.ncus, host.machine.driver_version())
    except EnvironmentProblem as error:
        yield Check("ncu", PROBLEM, error.message, fix=error.hint or INSTALL_HINT)
        return
    yield Check("ncu", OK, str(chosen))
    driver = host.machine.driver_version()
    for ncu in host.ncus:
        if not ncu.supported:
            yield Check("ncu", UNKNOWN, f"{ncu}: older than {version_text(OLDEST)}, not used")
        elif not ncu.suits(driver):
            fix = "" if chosen.suits(driver) else f"install driver {ncu.oldest_driver} or newer, or an older ncu"
            state = UNKNOWN if chosen.suits(driver) else PROBLEM
            yield Check("ncu", state, f"{ncu}: needs driver {ncu.oldest_driver} or newer", fix=fix)
        elif ncu != chosen:
            yield Check("ncu", OK, f"{ncu}: also installed")


def _permission(host: Host) -> Iterator[Check]:
    restricted = host.machine.counters_need_admin()
    if restricted is None:
        yield Check("counters", UNKNOWN, "the driver does not say who may read the GPU's counters")
    elif not restricted:
        yield Check("counters", OK, "every user may read the GPU's counters")
    elif _is_admin(host.machine):
        yield Check("counters", OK, "only administrators may read the GPU's counters; this user is one")
    else:
        refused = "only administrators may read the GPU's counters; times alone need none by PyTorch, nsys or CUPTI"
        yield Check("counters", PROBLEM, refused, fix=PERMISSION_FIX)


def _is_admin(machine: Machine) -> bool:
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", machine.text("/proc/self/status") or "", re.MULTILINE)
    return match is not None and bool(int(match[1], 16) >> _ADMIN_CAPABILITY & 1)


def _other_tools(host: Host) -> Iterator[Check]:
    running = set(_processes(host.machine))
    if running & {"nv-hostengine", "dcgm-exporter"}:
        yield Check(
            "other profilers",
            PROBLEM,
            "DCGM is running and may hold the GPU's counters",
            fix="dcgmi profile --pause before profiling, dcgmi profile --resume afterwards",
        )
    if running & {"nvidia-cuda-mps-control", "nvidia-cuda-mps-server"} or "CUDA_MPS_PIPE_DIRECTORY" in host.environ:
        fix = "stop it: echo quit | nvidia-cuda-mps-control"
        yield Check(
            "MPS", PROBLEM, "the Multi-Process Service is running: what ncu measures under it is undefined", fix=fix
        )
    for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
        if host.environ.get(name):
            result = f"{name} is set to {host.environ[name]}; gpuprof run unsets it for the program"
            yield Check("injection", OK, result)


def _processes(machine: Machine) -> Iterator[str]:
    for path in machine.path("/proc").glob("[0-9]*/comm"):
        name = machine.text(f"/proc/{path.parent.name}/comm")
        if name:
            yield name.strip()


def _surroundings(host: Host) -> Iterator[Check]:
    if "microsoft" in (host.machine.text("/proc/version") or "").lower():
        yield Check("WSL", UNKNOWN, "Windows Subsystem for Linux: counters must be allowed in the NVIDIA Control Panel")
    inside = host.machine.path("/.dockerenv").exists() or host.machine.path("/run/.containerenv").exists()
    if inside and not _is_admin(host.machine):
        fix = "docker run --cap-add=SYS_ADMIN, if the driver restricts counters to administrators"
        yield Check("container", UNKNOWN, "a container without CAP_SYS_ADMIN", fix=fix)
    for name, place in (("temporary folder", Path(tempfile.gettempdir())), ("home folder", _home(host.environ))):
        yield _writable(name, place)
    lock = Path(tempfile.gettempdir()) / "nsight-compute-lock"
    if lock.exists() and not os.access(lock, os.W_OK):
        fix = f"remove {lock} if no ncu is running, or set TMPDIR to a folder of your own"
        yield Check("lock file", PROBLEM, "ncu's lock file belongs to another user", fix=fix)


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def _writable(name: str, place: Path) -> Check:
    try:
        with tempfile.TemporaryFile(dir=place):
            return Check(name, OK, f"{place} is writable")
    except OSError as error:
        variable = "HOME" if name.startswith("home") else "TMPDIR"
        return Check(
            name, PROBLEM, f"{place} is not writable: {error.strerror}", fix=f"set {variable} to another folder"
        )


def _packages(_: Host) -> Iterator[Check]:
    yield Check("Python", OK, f"{version_text(sys.version_info[:3])}, {sys.executable}")
    for name in missing_packages():
        yield Check("package", PROBLEM, f"{name} is missing (gpuprof needs it)", fix=install_command([name]))
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield Check("package", OK, f"{name} {importlib.metadata.version(name)}")


def _too_new(host: Host) -> Iterator[Check]:
    """Note packages that measuring cannot use, for they are of a newer CUDA than the driver."""
    version = host.machine.driver_version()
    if version is None or version[0] >= DRIVER_BY_CUDA[13]:
        return
    installed = {package.metadata["Name"].lower() for package in importlib.metadata.distributions()}
    for new, old in _OF_CUDA_13.items():
        if new in installed and old not in installed:
            result = (
                f"{new} is for CUDA 13, which driver {version[0]} does not support; gpuprof characterize needs {old}"
            )
            yield Check("CUDA", NOTE, result, fix=f"python -m pip install {old}")


_CHECKS: tuple[Callable[[Host], Iterator[Check]], ...] = (
    _driver, _gpus, _ncu, _permission, _other_tools, _surroundings, _packages, _too_new,
)  # fmt: skip
