"""Finds Nsight Compute's `ncu` on this machine and chooses the one that suits the driver."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuprof.collect.machine import DRIVER_BY_CUDA, Machine, version_text
from gpuprof.errors import EnvironmentProblem
from gpuprof.working_folder import programs_path

OLDEST = (2023, 1)
"""The oldest release that the command lines of this package are written for."""

_CUDA_BY_RELEASE = (((2025, 3), 13), ((2022, 4), 12), ((2020, 1), 11))
"""First release of Nsight Compute that came with a CUDA version (developer.nvidia.com/nsight-compute-history)."""

_FOLDERS = (
    ("usr/local", "cuda*/bin/ncu"),
    ("usr/local", "NVIDIA-Nsight-Compute*/ncu"),
    ("opt/nvidia/nsight-compute", "*/ncu"),
    ("opt/nvidia", "nsight-compute*/ncu"),
    ("usr/lib/nsight-compute", "ncu"),
)
_VERSION = re.compile(r"^Version (\d+(?:\.\d+)+)", re.MULTILINE)
_PATIENCE_S = 10.0
INSTALL_HINT = (
    "install Nsight Compute (part of the CUDA toolkit; developer.nvidia.com/nsight-compute), "
    "or point to it with --ncu PATH"
)


class Ncu(NamedTuple):
    """An `ncu` that answers, its version, and where it was found: --ncu, PATH, CUDA_HOME or a folder."""

    path: Path
    version: tuple[int, ...]
    origin: str

    @property
    def supported(self) -> bool:
        """Tell whether this package's command lines are written for it."""
        return self.version >= OLDEST

    def suits(self, driver: tuple[int, ...] | None) -> bool:
        """Tell whether the driver is new enough for the CUDA version that this release came with."""
        return driver is None or driver[0] >= self.oldest_driver

    @property
    def oldest_driver(self) -> int:
        """Return the oldest driver branch that this release supports."""
        cuda = next((cuda for first, cuda in _CUDA_BY_RELEASE if self.version >= first), 11)
        return DRIVER_BY_CUDA[cuda]

    def __str__(self) -> str:
        return f"{self.path} (version {version_text(self.version)}, from {self.origin})"


def find_ncu(environ: Mapping[str, str], machine: Machine | None = None) -> tuple[Ncu, ...]:
    """Return every `ncu` on PATH, in CUDA_HOME and in the folders of installers, newest first, each once."""
    installed: dict[str, Ncu] = {}
    for path, origin in _candidates(environ, machine or Machine()):
        real = os.path.realpath(path)
        if real not in installed and os.access(path, os.X_OK) and path.is_file():
            version = ncu_version(path)
            if version is not None:
                installed[real] = Ncu(path, version, origin)
    return tuple(sorted(installed.values(), key=lambda ncu: ncu.version, reverse=True))


def choose_ncu(environ: Mapping[str, str], named: str | None = None, machine: Machine | None = None) -> Ncu:
    """Return the ncu that was named, else the newest that the driver supports.

    Raises EnvironmentProblem if there is none, if it does not answer, or if it is older than OLDEST.
    """
    machine = machine or Machine()
    if named is not None:
        return _checked(_named(named, environ))
    return choose_from(find_ncu(environ, machine), machine.driver_version())


def choose_from(installed: Sequence[Ncu], driver: tuple[int, ...] | None) -> Ncu:
    """Return the newest that the driver supports of those found, newest first; else the oldest that will do.

    Raises EnvironmentProblem if there is none, or if all are older than OLDEST.
    """
    if not installed:
        raise EnvironmentProblem("ncu (Nsight Compute) was not found", INSTALL_HINT)
    supported = [ncu for ncu in installed if ncu.supported] or [_checked(installed[0])]
    return next((ncu for ncu in supported if ncu.suits(driver)), supported[-1])


def _named(name: str, environ: Mapping[str, str]) -> Ncu:
    place = shutil.which(name, path=programs_path(environ))
    if place is None and Path(name).is_dir():
        place = shutil.which("ncu", path=name)
    if place is None:
        raise EnvironmentProblem(
            f"--ncu {name} does not exist or is not executable",
            "name Nsight Compute's ncu or its folder, or leave out --ncu",
        )
    version = ncu_version(Path(place))
    if version is None:
        raise EnvironmentProblem(f"{place} is not Nsight Compute's ncu", f"see what {place} --version prints")
    return Ncu(Path(place), version, "--ncu")


def _checked(ncu: Ncu) -> Ncu:
    if not ncu.supported:
        raise EnvironmentProblem(
            f"{ncu.path} is Nsight Compute {version_text(ncu.version)}; {version_text(OLDEST)} or newer is needed",
            INSTALL_HINT,
        )
    return ncu


def _candidates(environ: Mapping[str, str], machine: Machine) -> Iterator[tuple[Path, str]]:
    for folder in filter(None, programs_path(environ).split(os.pathsep)):
        yield Path(folder) / "ncu", "PATH"
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if Path(environ.get(name, "")).is_absolute():
            yield Path(environ[name]) / "bin" / "ncu", name
    for folder, pattern in _FOLDERS:
        for path in sorted(machine.path(folder).glob(pattern), reverse=True):
            yield path, f"/{folder}"


def ncu_version(path: Path) -> tuple[int, ...] | None:
    """Ask a program for its version; None if it is not Nsight Compute or does not answer in ten seconds."""
    try:
        completed = subprocess.run(
            [path, "--version"], capture_output=True, timeout=_PATIENCE_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = completed.stdout.decode(errors="replace")
    match = _VERSION.search(text)
    if completed.returncode != 0 or match is None or "Nsight Compute" not in text:
        return None
    return tuple(map(int, match[1].split(".")))
