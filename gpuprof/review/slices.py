"""Reviews a few kernels of one target: one call of nvdisasm, and what follows from its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.review.code import KernelCode
from gpuprof.review.contract import ReviewedKernel
from gpuprof.review.kernel import NO_CODE, CompiledKernel
from gpuprof.review.reviewed import reviewed_kernel
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.binary.line_table import line_tables
from gpuprof.sass.instruction import Instruction, without_padding
from gpuprof.sass.tools.disassemble import brings, disassembled, disassembler_for
from gpuprof.sass.tools.programs import NotFinished

_LEAST_BYTES, _MOST_BYTES = 8_000 * INSTRUCTION_BYTES, 100_000 * INSTRUCTION_BYTES
"""Code of one call of nvdisasm: its start alone takes as long as 15,000 instructions, of which most are repeated."""
_MOST_KERNELS = 200
_TARGET = re.compile(r"sm_\d{2,3}[af]?")
_BROKEN = (ArithmeticError, LookupError, ValueError, TypeError, RecursionError)
"""What code that no compiler wrote may lead to."""

Numbered = tuple[int, CompiledKernel]
"""A kernel, and its place in the review."""
SourceLines = Mapping[int, tuple[str, int]]


def slices_of(kernels: Mapping[int, CompiledKernel], count: int) -> Iterator[list[int]]:
    """Yield the numbers of kernels in order, together those of one cubin and target that one call reads.

    The pieces for so many processes become smaller towards the end, so that these end at about the same time.
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
                piece, size = [], 0
            piece.append(number)
            size += length
        yield piece
        left -= size


def reviewed_slice(kernels: Sequence[Numbered]) -> list[ReviewedKernel]:
    """Return what is told of kernels of one target. What cannot be read has a note that says why, and no accesses."""
    codes = _instructions([kernel for _, kernel in kernels])
    return [_reviewed(number, kernel, code) for (number, kernel), code in zip(kernels, codes, strict=True)]


def _instructions(kernels: Sequence[CompiledKernel]) -> list[tuple[Instruction, ...] | str]:
    """Return the instructions of each kernel, or why there are none."""
    unreadable = [_unreadable(kernel) for kernel in kernels]
    read = iter(_disassembled([kernel for kernel, why in zip(kernels, unreadable, strict=True) if why is None]))
    return [next(read) if why is None else why for why in unreadable]


def _unreadable(kernel: CompiledKernel) -> str | None:
    """Return why nvdisasm need not be asked for a kernel; None where it is to be asked."""
    code = kernel.kernel.code
    if not code:
        return kernel.bare or NO_CODE
    if len(code) % INSTRUCTION_BYTES:
        return f"{len(code)} bytes of machine code are not a whole number of instructions of {INSTRUCTION_BYTES} bytes"
    if not _TARGET.fullmatch(kernel.target) or disassembler_for(kernel.target) is None:
        return _no_tool(kernel.target)
    return None


def _no_tool(target: str) -> str:
    return f"no nvdisasm at hand reads {target:.40}; {brings(target)}"


def _disassembled(kernels: Sequence[CompiledKernel]) -> list[tuple[Instruction, ...] | str]:
    """Have nvdisasm read kernels of one target; where it fails, half of them at a time, until the broken is alone."""
    if not kernels:
        return []
    tool = disassembler_for(kernels[0].target)
    if tool is None:
        return [_no_tool(kernel.target) for kernel in kernels]
    try:
        return disassembled(tool, kernels[0].target, [kernel.kernel.code for kernel in kernels])
    except NotFinished as error:
        return [str(error)] * len(kernels)
    except EnvironmentProblem as error:
        if len(kernels) == 1:
            return [str(error)]
    half = len(kernels) // 2
    return [*_disassembled(kernels[:half]), *_disassembled(kernels[half:])]


def _reviewed(number: int, kernel: CompiledKernel, code: tuple[Instruction, ...] | str) -> ReviewedKernel:
    if isinstance(code, str):
        return _without_code(number, kernel, code)
    lines, notes = _lines(kernel)
    kernel = replace(kernel, notes=(*kernel.notes, *notes))
    known = KernelCode(kernel=kernel, code=without_padding(code), lines=lines, arch=_arch(kernel.target))
    try:
        return reviewed_kernel(known, number)
    except _BROKEN as error:
        return _without_code(number, kernel, f"{type(error).__name__}: {error}")


def given_up(number: int, kernel: CompiledKernel) -> ReviewedKernel:
    """Return what is told of a kernel whose review crashed or took too long."""
    return _without_code(number, kernel, "reading them crashed or took too long")


def _without_code(number: int, kernel: CompiledKernel, why: str) -> ReviewedKernel:
    kernel = replace(kernel, notes=(*kernel.notes, f"Its instructions could not be read: {why:.300}."))
    arch = _arch(kernel.target)
    return reviewed_kernel(KernelCode(kernel=kernel, code=(), lines={}, arch=arch, unread=f"{why:.300}"), number)


def _lines(kernel: CompiledKernel) -> tuple[SourceLines, tuple[str, ...]]:
    """Return the source lines of a kernel, and what there is to say of them."""
    if kernel.lines is not None or not kernel.cubin:
        return kernel.lines or {}, ()
    tables = _tables(kernel.cubin, innermost=kernel.launch is None)
    if isinstance(tables, str):
        return {}, (f"Its source lines could not be read: {tables:.300}.",)
    return tables.get(kernel.kernel.mangled, {}), ()


@lru_cache(maxsize=2)
def _tables(cubin: bytes, *, innermost: bool) -> Mapping[str, SourceLines] | str:
    """Return the lines by kernel; of a report those that ncu and `gpuprof show` name, else those of nvdisasm."""
    try:
        return line_tables(cubin, innermost=innermost)
    except DamagedInput as error:
        return str(error)


@lru_cache(maxsize=16)
def _arch(target: str) -> ArchSpec | None:
    """Return what is known of the architecture of a target: sm_90a is one of sm_90; None where no spec describes it."""
    return SpecLibrary().arch(target.rstrip("af")) if _TARGET.fullmatch(target) else None
