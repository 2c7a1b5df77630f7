"""Kernels that tests compile and review: CUDA by NVRTC for an architecture, each kernel as the rules see it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Finding
from gpuprof.resources import data_dir
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.review.rules.rule import CodeRule
from gpuprof.sass.binary.cubin import CubinKernel, read_cubin
from gpuprof.sass.binary.line_table import line_tables
from gpuprof.sass.flow.blocks import without_padding
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.tools.compile import NotCompiled, compile_file, target_options
from gpuprof.sass.tools.disassemble import disassemble, disassembler_for
from gpuprof.words.findings import with_sentences

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
BLOCK: Dim3 = (256, 1, 1)


@cache
def compiled_cases(source: str, target: str, options: tuple[str, ...] = ()) -> Mapping[str, CodeFacts]:
    """Return the kernels of a source by name, with their source lines."""
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        file = Path(folder) / "kernels.cu"
        file.write_text(source, encoding="utf-8")
        outcome = compile_file(file, target, (*target_options(target), "--generate-line-info", *options))
    assert not isinstance(outcome, NotCompiled), outcome
    cubin = read_cubin(outcome.cubin)
    tool = disassembler_for(target)
    assert tool is not None
    listings = disassemble(tool, target, [kernel.code for kernel in cubin.kernels])
    lines = line_tables(outcome.cubin)
    return {
        kernel.mangled: case_of(
            kernel, code, target, cubin=outcome.cubin, lines=lines.get(kernel.mangled, {}), name=kernel.mangled
        )
        for kernel, code in zip(cubin.kernels, listings, strict=True)
    }


def case_of(
    kernel: CubinKernel,
    code: tuple[Instruction, ...],
    target: str,
    *,
    cubin: bytes = b"",
    lines: Mapping[int, tuple[str, int]] | None = None,
    name: str = "kernel",
) -> CodeFacts:
    """Return a kernel as the rules see it."""
    compiled = CompiledKernel(
        name=name,
        target=target,
        origin="kernels.cu",
        cubin=cubin,
        kernel=kernel,
        shape=KnownLaunch(block=BLOCK),
    )
    arch = SpecLibrary(folders=(data_dir("specs"),)).arch(target.rstrip("af"))
    return CodeFacts(kernel=compiled, code=without_padding(code), lines=lines or {}, arch=arch)


def told(case: CodeFacts, rules: tuple[CodeRule, ...], rule: str) -> list[Finding]:
    """Return what one rule says of a kernel."""
    return [with_sentences(finding) for item in rules if item.id == rule for finding in item.check(case)]
