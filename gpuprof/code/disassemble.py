"""Finds nvdisasm and turns the code of many kernels into SASS text with one call per target.

nvdisasm takes 0.3 s to start and next to nothing per kernel, so the code sections of all kernels of a target are laid
end to end and read as one raw binary. Each kernel's lines are then those within its span.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from gpuprof.code.nvrtc import library_folders
from gpuprof.code.sass import Instruction, parse_sass
from gpuprof.errors import EnvironmentProblem

_WHEEL_FOLDERS = ("nvidia/cu13/bin", "nvidia/cuda_nvdisasm/bin", "triton/backends/nvidia/bin")
_VERSION = re.compile(r"release (\d+)\.(\d+)")
_LAST_WITH_SM70 = (12, 9)
"""That of CUDA 12.8 reads sm_70, that of 13.1 does not, by their own lists; of 13.0 it is not known."""
_PATIENCE_S = 120.0
_INSTRUCTION_BYTES = 16


class Disassembler(NamedTuple):
    """An nvdisasm that answers, and its version."""

    path: Path
    version: tuple[int, int]

    def reads(self, target: str) -> bool:
        """Tell whether it may know the target; the old ones that know sm_70 do not know the new."""
        return self.version <= _LAST_WITH_SM70 if target == "sm_70" else True

    def __str__(self) -> str:
        return f"nvdisasm {self.version[0]}.{self.version[1]}"


def disassemble(tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[Instruction, ...]]:
    """Return the instructions of each kernel, addresses from its own start.

    Raises EnvironmentProblem if it fails, or if a single instruction is not understood.
    """
    instructions = parse_sass(_run(tool, target, b"".join(codes)))
    whole = sum(map(len, codes)) // _INSTRUCTION_BYTES
    if len(instructions) != whole:
        raise EnvironmentProblem(
            f"{len(instructions)} of {whole} instructions could be parsed from the output of {tool}"
        )
    ends = list(accumulate(map(len, codes), initial=0))
    return _split(instructions, list(pairwise(ends)))


def _split(instructions: Sequence[Instruction], spans: Sequence[tuple[int, int]]) -> list[tuple[Instruction, ...]]:
    kernels, index = [], 0
    for start, end in spans:
        first = index
        while index < len(instructions) and instructions[index].address < end:
            index += 1
        kernels.append(tuple(instruction.moved(-start) for instruction in instructions[first:index]))
    return kernels


def _run(tool: Disassembler, target: str, code: bytes) -> str:
    """Run nvdisasm on raw code. Its analysis of indirect branches is left out: it takes longer than the rest."""
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        file = Path(folder) / "code.bin"
        file.write_bytes(code)
        command = [str(tool.path), "--binary", target.replace("sm_", "SM"), "--no-dataflow", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentProblem(f"{tool.path} did not answer: {error}") from error
    if done.returncode:
        raise EnvironmentProblem(f"{tool} cannot read code for {target}: {done.stderr.strip() or done.returncode}")
    return done.stdout


@lru_cache(maxsize=1)
def find_disassemblers() -> tuple[Disassembler, ...]:
    """Return every nvdisasm in wheels, on PATH and in the CUDA toolkit, newest first, one per version."""
    by_version: dict[tuple[int, int], Disassembler] = {}
    for path in _candidates(os.environ):
        if path.is_file() and os.access(path, os.X_OK):
            version = _version(path)
            if version is not None:
                by_version.setdefault(version, Disassembler(path, version))
    return tuple(by_version[version] for version in sorted(by_version, reverse=True))


def disassembler_for(target: str) -> Disassembler | None:
    """Return the newest nvdisasm that reads the target, or None."""
    return next((tool for tool in find_disassemblers() if tool.reads(target)), None)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in library_folders(environ, _WHEEL_FOLDERS, ("bin",)):
        yield folder / "nvdisasm"
        yield folder / "nvdisasm.exe"
    on_path = shutil.which("nvdisasm", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path)


def _version(path: Path) -> tuple[int, int] | None:
    try:
        done = subprocess.run([str(path), "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout)
    return (int(match[1]), int(match[2])) if match else None
