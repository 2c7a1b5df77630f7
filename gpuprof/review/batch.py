"""Review the kernels of one batch: disassemble them by one call of nvdisasm, then review each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.review.contract import ReviewedKernel
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.kernel import NO_CODE, CompiledKernel
from gpuprof.review.kernel_review import reviewed_kernel
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.binary.line_table import line_tables
from gpuprof.sass.flow.blocks import without_padding
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.tools.disassemble import Disassembler, disassembled, disassembler_for

_TARGET = re.compile(r"sm_\d{2,3}[af]?")
_BROKEN = (ArithmeticError, LookupError, ValueError, TypeError, RecursionError)
"""Errors that only invalid code raises."""


def reviewed_batch(kernels: Sequence[CompiledKernel]) -> list[ReviewedKernel]:
    """Return the reviews of kernels of one target. If a kernel cannot be read, its review has the reason in a note."""
    target = kernels[0].target
    tool = disassembler_for(target) if _TARGET.fullmatch(target) else None
    unread = [_why_unread(kernel, tool) for kernel in kernels]
    readable = [kernel.kernel.code for kernel, why in zip(kernels, unread, strict=True) if why is None]
    codes = iter(_disassembled(tool, target, readable) if tool is not None and readable else ())
    reviews = []
    for kernel, why in zip(kernels, unread, strict=True):
        reviews.append(without_code(kernel, why) if why is not None else _reviewed(kernel, next(codes)))
    return reviews


def _why_unread(kernel: CompiledKernel, tool: Disassembler | None) -> str | None:
    """Return why a kernel cannot be given to nvdisasm; None if it can."""
    code = kernel.kernel.code
    if not code:
        return kernel.bare or NO_CODE
    if len(code) % INSTRUCTION_BYTES:
        return f"{len(code)} bytes of machine code are not a whole number of instructions of {INSTRUCTION_BYTES} bytes"
    return None if tool is not None else f"no nvdisasm here reads {kernel.target:.40}"


def _disassembled(tool: Disassembler, target: str, codes: Sequence[bytes]) -> Sequence[tuple[Instruction, ...] | str]:
    """Return the instructions of each kernel, or why they could not be read."""
    try:
        return disassembled(tool, target, codes)
    except EnvironmentProblem as error:
        return [str(error)] * len(codes)


def _reviewed(kernel: CompiledKernel, code: tuple[Instruction, ...] | str) -> ReviewedKernel:
    if isinstance(code, str):
        return without_code(kernel, code)
    lines = kernel.lines or {}
    if kernel.lines is None and kernel.cubin:
        tables = _tables(kernel.cubin, innermost=kernel.launch is None)
        if isinstance(tables, str):
            kernel = _noted(kernel, f"Its source lines could not be read: {tables:.300}.")
        else:
            lines = tables.get(kernel.kernel.mangled, {})
    arch = _arch(kernel.target)
    try:
        return reviewed_kernel(CodeFacts(kernel=kernel, code=without_padding(code), lines=lines, arch=arch))
    except _BROKEN as error:
        return without_code(kernel, f"{type(error).__name__}: {error}")


@lru_cache(maxsize=2)
def _tables(cubin: bytes, *, innermost: bool) -> Mapping[str, Mapping[int, tuple[str, int]]] | str:
    """Return the source lines by kernel, or the error of a damaged table.

    `innermost` lines are those of inlined functions, as nvdisasm names them. A report has those that ncu names.
    """
    try:
        return line_tables(cubin, innermost=innermost)
    except DamagedInput as error:
        return str(error)


@lru_cache(maxsize=16)
def _arch(target: str) -> ArchSpec | None:
    """Return the architecture of a target (sm_90 for sm_90a); None if no spec describes it."""
    return SpecLibrary().arch(target.rstrip("af")) if _TARGET.fullmatch(target) else None


def without_code(kernel: CompiledKernel, why: str) -> ReviewedKernel:
    """Return the review of a kernel whose instructions are not known."""
    why = f"{why:.300}"
    kernel = _noted(kernel, f"Its instructions could not be read: {why}.")
    return reviewed_kernel(CodeFacts(kernel=kernel, code=(), lines={}, arch=_arch(kernel.target), unread=why))


def _noted(kernel: CompiledKernel, note: str) -> CompiledKernel:
    return replace(kernel, notes=(*kernel.notes, note))
