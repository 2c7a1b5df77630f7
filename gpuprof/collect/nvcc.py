"""Compiles a CUDA program for the GPUs of this machine, with the lines that a profiler needs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpuprof.collect.machine import Machine
from gpuprof.collect.process import run
from gpuprof.errors import EnvironmentProblem, Interrupted
from gpuprof.working_folder import program_on_path, programs_path

_PATIENCE_S = 300.0
_LAST_LINES = 5


def find_nvcc(environ: Mapping[str, str], machine: Machine | None = None) -> Path:
    """Return nvcc from PATH, CUDA_HOME, CUDA_PATH or the newest toolkit in /usr/local. Raises EnvironmentProblem."""
    nvcc = next((path for path in _candidates(environ, machine or Machine()) if path.is_file()), None)
    if nvcc is None:
        raise EnvironmentProblem(
            "nvcc (the CUDA compiler) was not found",
            "install the CUDA toolkit, or set CUDA_HOME to its folder",
        )
    return nvcc


def _candidates(environ: Mapping[str, str], machine: Machine) -> Iterator[Path]:
    on_path = program_on_path("nvcc", environ)
    if on_path is not None:
        yield Path(on_path)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if Path(environ.get(name, "")).is_absolute():
            yield Path(environ[name]) / "bin" / "nvcc"
    yield machine.path("usr/local/cuda/bin/nvcc")
    yield from sorted(machine.path("usr/local").glob("cuda-*/bin/nvcc"), reverse=True)


def compile_program(nvcc: Path, source: Path, program: Path, archs: Sequence[str]) -> None:
    """Compile a program for architectures such as "sm_90", with line numbers.

    Raises EnvironmentProblem if nvcc cannot, Interrupted if the user ended it.
    """
    code = [f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}" for arch in archs]
    argv = [str(nvcc), "-O3", "-lineinfo", *code, "-o", str(program), str(source)]
    try:
        environ = {**os.environ, "PATH": programs_path(os.environ)}
        ended = run(argv, environ=environ, stdout=subprocess.DEVNULL, timeout_s=_PATIENCE_S, quiet=True)
    except OSError as error:
        raise EnvironmentProblem(f"{nvcc} cannot be run: {error.strerror}", "reinstall the CUDA toolkit") from error
    if ended.stopped_by == "interrupt":
        raise Interrupted("interrupted while the program was compiled")
    if ended.stopped_by is not None:
        raise EnvironmentProblem(f"{nvcc} did not finish in {_PATIENCE_S:.0f} s", "try again")
    if ended.code != 0 or not program.is_file():
        message = " ".join(ended.tail.strip().splitlines()[-_LAST_LINES:]) or f"it exited with code {ended.code}"
        targets = " and ".join(archs)
        hint = f"set CUDA_HOME to a toolkit that supports {targets} and the host compiler of this machine"
        raise EnvironmentProblem(f"{nvcc} cannot compile {source.name} for {targets}: {message}", hint)
