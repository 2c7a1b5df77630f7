"""Compiles cases for one target, kernels with the same options together, and tells what the compiler made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.diagnosis.case import Case
from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.binary.cubin import kernel_code
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.tools.compile import Compiled, NotCompiled, compile_file, include_options, target_options
from gpuprof.sass.tools.disassemble import disassemble, disassembler_for
from gpuprof.sass.tools.nvrtc import Nvrtc

_KERNEL = re.compile(r"Compiling entry function '(\w+)'")
_NUMBERS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "local": re.compile(r"(\d+) bytes stack frame"),
    "shared": re.compile(r"(\d+) bytes smem"),
}


class CompiledKernel(NamedTuple):
    """One kernel of a case: registers a thread, local bytes a thread, static shared bytes a block, and its SASS."""

    registers: int
    local: int
    shared: int
    code_bytes: int
    code: tuple[Instruction, ...]


class CaseCode(NamedTuple):
    """The machine code of a case's kernels by entry, and registers, local and shared bytes of each."""

    codes: dict[str, bytes]
    numbers: dict[str, dict[str, int]]


def compile_case(case: Case, target: str, nvrtc: Nvrtc | None = None) -> dict[str, Compiled] | NotCompiled:
    """Compile the kernels with line numbers and return, by entry, the file that each is to be taken from.

    Kernels with the same options are compiled together. `nvrtc` None: by the first that knows the target. Raises
    EnvironmentProblem where there is no NVRTC.
    """
    base = (*target_options(target), "--generate-line-info", "--ptxas-options=-v", *include_options(case.source.parent))
    compiled: dict[tuple[str, ...], Compiled] = {}
    for options in dict.fromkeys(case.options[entry] for entry in case.entries):
        outcome = compile_file(case.source, target, (*base, *options), nvrtc)
        if isinstance(outcome, NotCompiled):
            return outcome
        compiled[options] = outcome
    return {entry: compiled[case.options[entry]] for entry in case.entries}


def code_of(compiled: Mapping[str, Compiled]) -> CaseCode:
    """Return the code of a case's kernels. Raises DamagedInput where one is missing."""
    return CaseCode(
        {entry: kernel_code(of_kernel.cubin, entry) for entry, of_kernel in compiled.items()},
        {entry: resources(of_kernel.log)[entry] for entry, of_kernel in compiled.items()},
    )


def kernels_of(cases: Sequence[CaseCode], target: str) -> list[dict[str, CompiledKernel]]:
    """Return the kernels of each case by entry. Raises EnvironmentProblem where no nvdisasm reads the target."""
    if not cases:
        return []
    tool = disassembler_for(target)
    if tool is None:
        raise EnvironmentProblem(f"no nvdisasm here reads {target}")
    listings = iter(disassemble(tool, target, [code for case in cases for code in case.codes.values()]))
    return [
        {
            entry: CompiledKernel(**case.numbers[entry], code_bytes=len(code), code=next(listings))
            for entry, code in case.codes.items()
        }
        for case in cases
    ]


def resources(log: str) -> dict[str, dict[str, int]]:
    """Return registers, local and static shared bytes by kernel from what ptxas says with `-v`."""
    by_kernel: dict[str, dict[str, int]] = {}
    parts = _KERNEL.split(log)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        matches = {what: pattern.search(text) for what, pattern in _NUMBERS.items()}
        by_kernel[name] = {what: int(match[1]) if match else 0 for what, match in matches.items()}
    return by_kernel
