"""Finds nvdisasm and turns the code of many kernels into SASS text with one call per target.

nvdisasm takes 0.3 s to start and next to nothing per kernel, so the code sections of all kernels of a target are laid
end to end and read as one raw binary. Each kernel's lines are then those within its span.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO

from gpuprof.code.binary.elf import INSTRUCTION_BYTES
from gpuprof.code.sass.instruction import Instruction, parse_sass
from gpuprof.code.tools.programs import Program, find_programs
from gpuprof.errors import EnvironmentProblem

VOLTA_HINT = "put an nvdisasm of CUDA 12 on PATH: a toolkit's, or that in the package triton==3.6"
"""What reads code for sm_70; no package of nvdisasm alone does."""
_LAST_WITH_SM70 = (12, 9)
"""That of CUDA 12.8 reads sm_70, that of 13.1 does not, by their own lists; of 13.0 it is not known."""
_PATIENCE_S, _PATIENCE_S_PER_BYTE = 30.0, 0.0002
"""How long nvdisasm may take: an instruction takes 25 µs, this gives it a hundred times that."""
_MOST_TEXT, _MOST_TEXT_PER_BYTE = 2**20, 256
"""Of its text. An instruction has 100 to 200 characters, this gives it 4,096."""
_MOST_REASON = 300


class NotAnswered(EnvironmentProblem):
    """A tool that did not end in time: to ask it for less is no use."""


class Disassembler(Program):
    """An nvdisasm that answers, and its version."""

    __slots__ = ()

    def reads(self, target: str) -> bool:
        """Tell whether it may know the target; the old ones that know sm_70 do not know the new."""
        return self.version <= _LAST_WITH_SM70 if target == "sm_70" else True


def disassemble(tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[Instruction, ...]]:
    """Return the instructions of each kernel, addresses from its own start.

    Raises EnvironmentProblem if it fails, or if a single instruction is not understood.
    """
    instructions = parse_sass(_run(tool, target, b"".join(codes)))
    whole = sum(map(len, codes)) // INSTRUCTION_BYTES
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
    most = _MOST_TEXT + _MOST_TEXT_PER_BYTE * len(code)
    with tempfile.TemporaryDirectory(prefix="gpuprof-", ignore_cleanup_errors=True) as folder:
        file, text, log = (Path(folder) / name for name in ("code.bin", "code.sass", "errors.txt"))
        file.write_bytes(code)
        command = [str(tool.path), "--binary", target.replace("sm_", "SM"), "--no-dataflow", str(file)]
        with text.open("wb") as out, log.open("wb") as errors:
            ended = _ended(tool, command, out, errors, _PATIENCE_S + _PATIENCE_S_PER_BYTE * len(code))
        if ended:
            raise EnvironmentProblem(f"{tool} cannot read code for {target}: {_reason(log) or ended}")
        if text.stat().st_size > most:
            raise NotAnswered(f"{tool} wrote {text.stat().st_size:,} bytes for {len(code):,} bytes of code")
        return text.read_text(encoding="utf-8", errors="replace")


def _ended(tool: Disassembler, command: Sequence[str], out: IO[bytes], errors: IO[bytes], patience_s: float) -> int:
    """Run a command to its end, and return how that was."""
    try:
        done = subprocess.run(command, stdout=out, stderr=errors, timeout=patience_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotAnswered(f"{tool.path} did not answer within {patience_s:.0f} s") from error
    except OSError as error:
        raise EnvironmentProblem(f"{tool.path} did not answer: {error}") from error
    return done.returncode


def _reason(log: Path) -> str:
    """Return the beginning of what it said of failing, on one line."""
    with log.open("rb") as file:
        return " ".join(file.read(_MOST_REASON * 4).decode("utf-8", "replace").split())[:_MOST_REASON]


def find_disassemblers() -> tuple[Disassembler, ...]:
    """Return every nvdisasm in wheels, on PATH and in the CUDA toolkit, newest first, one per version."""
    return tuple(Disassembler(*tool) for tool in find_programs("nvdisasm"))


def disassembler_for(target: str) -> Disassembler | None:
    """Return the newest nvdisasm that reads the target, or None."""
    return next((tool for tool in find_disassemblers() if tool.reads(target)), None)
