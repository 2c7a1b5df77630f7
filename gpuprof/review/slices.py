"""Reviews a few kernels of one target: one call of nvdisasm, and the reviews of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.review.contract import ReviewedKernel
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.kernel import NO_CODE, CompiledKernel
from gpuprof.review.reviewed import reviewed_kernel
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.binary.line_table import line_tables
from gpuprof.sass.flow.blocks import without_padding
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.tools.disassemble import Disassembler, disassembled, disassembler_for
from gpuprof.sass.tools.programs import NotFinished

_LEAST_BYTES = 8_000 * INSTRUCTION_BYTES
_MOST_BYTES = 100_000 * INSTRUCTION_BYTES
"""Code of one call of nvdisasm: its start alone takes as long as 15,000 instructions, of which most are repeated."""
_MOST_KERNELS = 200
_TARGET = re.compile(r"sm_\d{2,3}[af]?")
_BROKEN = (ArithmeticError, LookupError, ValueError, TypeError, RecursionError)
"""Errors that code of no compiler may lead to."""


def slices_of(kernels: Mapping[int, CompiledKernel], count: int) -> Iterator[list[int]]:
    """Yield the numbers of kernels in order, together those of one cubin and target that one call reads.

    The slices for `count` processes become smaller towards the end, so that these end at about the same time.
    """
    left = sum(len(kernel.kernel.code) for kernel in kernels.values())
    for _, group in groupby(kernels, key=lambda number: (kernels[number].target, id(kernels[number].cubin))):
        piece: list[int] = []
        size = 0
        for number in group:
            length = len(kernels[number].kernel.code)
            room = min(_MOST_BYTES, max(_LEAST_BYTES, left // (2 * count)))
            if piece and (size + length > room or len(piece) >= _MOST_KERNELS):
                yield piece
                left -= size
                piece = []
                size = 0
            piece.append(number)
            size += length
        yield piece
        left -= size


def reviewed_slice(kernels: Sequence[CompiledKernel]) -> list[ReviewedKernel]:
    """Return the reviews of kernels of one target. A kernel that cannot be read has a note that says why."""
    tool = disassembler_for(kernels[0].target)
    unreadable = [_why_unreadable(kernel, tool) for kernel in kernels]
    readable = [kernel for kernel, why in zip(kernels, unreadable, strict=True) if why is None]
    codes = iter(_disassembled(tool, readable) if tool is not None else ())
    return [
        _reviewed(kernel, next(codes)) if why is None else without_code(kernel, why)
        for kernel, why in zip(kernels, unreadable, strict=True)
    ]


def _why_unreadable(kernel: CompiledKernel, tool: Disassembler | None) -> str | None:
    """Return why nvdisasm cannot read a kernel; None if it may."""
    code = kernel.kernel.code
    if not code:
        return kernel.bare or NO_CODE
    if len(code) % INSTRUCTION_BYTES:
        return f"{len(code)} bytes of machine code are not a whole number of instructions of {INSTRUCTION_BYTES} bytes"
    if tool is None or not _TARGET.fullmatch(kernel.target):
        return f"no nvdisasm here reads {kernel.target:.40}"
    return None


def _disassembled(tool: Disassembler, kernels: Sequence[CompiledKernel]) -> list[tuple[Instruction, ...] | str]:
    """Have nvdisasm read kernels of one target; if it fails, half of them at a time, until the broken one is alone."""
    if not kernels:
        return []
    try:
        return disassembled(tool, kernels[0].target, [kernel.kernel.code for kernel in kernels])
    except NotFinished as error:
        return [str(error)] * len(kernels)
    except EnvironmentProblem as error:
        if len(kernels) == 1:
            return [str(error)]
    half = len(kernels) // 2
    return [*_disassembled(tool, kernels[:half]), *_disassembled(tool, kernels[half:])]


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
    try:
        return reviewed_kernel(
            CodeFacts(kernel=kernel, code=without_padding(code), lines=lines, arch=_arch(kernel.target))
        )
    except _BROKEN as error:
        return without_code(kernel, f"{type(error).__name__}: {error}")


@lru_cache(maxsize=2)
def _tables(cubin: bytes, *, innermost: bool) -> Mapping[str, Mapping[int, tuple[str, int]]] | str:
    """Return the lines by kernel, of a report those that ncu and `gpuprof show` name, else those of nvdisasm."""
    try:
        return line_tables(cubin, innermost=innermost)
    except DamagedInput as error:
        return str(error)


@lru_cache(maxsize=16)
def _arch(target: str) -> ArchSpec | None:
    """Return the architecture of a target: sm_90a is one of sm_90; None if no spec describes it."""
    return SpecLibrary().arch(target.rstrip("af")) if _TARGET.fullmatch(target) else None


def without_code(kernel: CompiledKernel, why: str) -> ReviewedKernel:
    """Return the review of a kernel whose instructions are not known."""
    kernel = _noted(kernel, f"Its instructions could not be read: {why:.300}.")
    return reviewed_kernel(CodeFacts(kernel=kernel, code=(), lines={}, arch=_arch(kernel.target), unread=f"{why:.300}"))


def _noted(kernel: CompiledKernel, note: str) -> CompiledKernel:
    return replace(kernel, notes=(*kernel.notes, note))
