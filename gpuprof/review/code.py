"""What is known of one kernel before it is looked at: its instructions, where they are from, its architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuprof.code.sass.instruction import Instruction
from gpuprof.hardware.specs import ArchSpec
from gpuprof.review.kernel import CompiledKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """One kernel and its code. `lines` are source places by offset; empty without line information.

    `code` is without the padding behind the last instruction. `arch` is None for a target that no spec describes.
    """

    kernel: CompiledKernel
    code: tuple[Instruction, ...]
    lines: Mapping[int, tuple[str, int]]
    arch: ArchSpec | None
