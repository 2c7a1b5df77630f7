"""What this machine says of its NVIDIA driver and GPUs: the files that the driver shows in /proc, and nvidia-smi."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuprof.working_folder import program_on_path

DRIVER_BY_CUDA = {13: 580, 12: 525, 11: 450}
"""Oldest driver branch of a CUDA version (CUDA toolkit release notes, minor version compatibility)."""
_DRIVER = re.compile(r"NVRM version:.{0,200}?\s(\d+(?:\.\d+)+)\s")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the system's files lie; tests point `root` at a folder of their own."""

    root: Path = Path("/")

    def path(self, name: str) -> Path:
        """Return the place of an absolute path below the root."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """Return what a file says; None if it is not there or may not be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def driver(self) -> str | None:
        """Return the version of the loaded driver, such as "580.65.06"; None where none is loaded."""
        match = _DRIVER.search(self.text("/proc/driver/nvidia/version") or "")
        return match[1] if match is not None else None

    def driver_version(self) -> tuple[int, ...] | None:
        """Return the same as numbers: (580, 65, 6)."""
        driver = self.driver()
        return tuple(map(int, driver.split("."))) if driver is not None else None

    def counters_need_admin(self) -> bool | None:
        """Tell whether the driver keeps the GPU's counters to the administrator; None where it does not say."""
        match = re.search(r"RmProfilingAdminOnly:\s*(\d)", self.text("/proc/driver/nvidia/params") or "")
        return match[1] == "1" if match is not None else None


def version_text(version: tuple[int, ...]) -> str:
    """Write a version: (550, 54, 15) → "550.54.15"."""
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True)
class InstalledGpu:
    """A GPU as nvidia-smi names it. `mig` and `persistence` are None where it does not say."""

    name: str
    compute_capability: str
    driver: str
    mig: bool | None
    persistence: bool | None

    @property
    def arch(self) -> str:
        """Return the name of its architecture: "sm_90"."""
        return "sm_" + self.compute_capability.replace(".", "")


_QUERY = "name,compute_cap,driver_version,mig.mode.current,persistence_mode"
_PATIENCE_S = 10.0


def gpus_here(environ: Mapping[str, str]) -> tuple[InstalledGpu, ...]:
    """Ask nvidia-smi for the GPUs of this machine; none where it is not there or does not answer."""
    program = program_on_path("nvidia-smi", environ)
    if program is None:
        return ()
    try:
        completed = subprocess.run(
            [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"],
            capture_output=True, timeout=_PATIENCE_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ()
    rows = [
        [cell.strip() for cell in line.split(",")] for line in completed.stdout.decode(errors="replace").splitlines()
    ]
    return tuple(
        InstalledGpu(row[0], row[1], row[2], mig=_switch(row[3]), persistence=_switch(row[4]))
        for row in rows
        if len(row) == 5 and re.fullmatch(r"\d+\.\d+", row[1])
    )


def _switch(text: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(text)
