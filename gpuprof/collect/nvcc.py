"""Compiles a CUDA program for a GPU of this machine, with the lines that a profiler needs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpuprof.collect.machine import Machine
from gpuprof.errors import EnvironmentProblem

_PATIENCE_S = 300.0
_LAST_LINES = 5


def find_nvcc(environ: Mapping[str, str], machine: Machine | None = None) -> Path:
    """Return nvcc from PATH, CUDA_HOME, CUDA_PATH or the newest toolkit in /usr/local. Raises EnvironmentProblem."""
    found = next((path for path in _candidates(environ, machine or Machine()) if path.is_file()), None)
    if found is None:
        raise EnvironmentProblem(
            "nvcc, the CUDA compiler, was not found on this machine",
            "install the CUDA toolkit, or set CUDA_HOME to its folder",
        )
    return found


def _candidates(environ: Mapping[str, str], machine: Machine) -> Iterator[Path]:
    on_path = shutil.which("nvcc", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(name):
            yield Path(environ[name]) / "bin" / "nvcc"
    yield machine.path("usr/local/cuda/bin/nvcc")
    yield from sorted(machine.path("usr/local").glob("cuda-*/bin/nvcc"), reverse=True)


def compile_program(nvcc: Path, source: Path, program: Path, arch: str) -> None:
    """Compile a program for an architecture such as "sm_90", with line numbers.

    Raises EnvironmentProblem if nvcc cannot.
    """
    command: list[str | Path] = [nvcc, "-O3", "-lineinfo", f"-arch={arch}", "-o", program, source]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise EnvironmentProblem(f"{nvcc} cannot be run: {error.strerror}", "install the CUDA toolkit again") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentProblem(f"{nvcc} did not finish in {_PATIENCE_S:.0f} s", "try again") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
        hint = f"a toolkit that knows {arch} and the compiler of this machine is needed; CUDA_HOME names another one"
        raise EnvironmentProblem(f"{nvcc} cannot compile {source.name} for {arch}: {' '.join(said)}", hint)
