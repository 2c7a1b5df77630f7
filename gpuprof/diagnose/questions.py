"""Which questions about a kernel are open once its limits are known: what counters could show why it is not faster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpuprof.model.session import KernelProfile

Question = Literal["work", "tensor-work", "memory", "pipes", "waits"]
"""FLOP by opcodes; FLOP of tensor instructions, if opcodes do not give them; how memory is used; what executes; why and
where warps wait."""
QUESTIONS: tuple[Question, ...] = ("work", "tensor-work", "memory", "pipes", "waits")
NEAR_PEAK = 0.9
"""If a pipe is so busy, less than a tenth can be gained, whatever else is counted."""
BUSY = 0.6
"""A unit that is less busy is no bottleneck by NVIDIA's speed-of-light rule."""
_TENSOR = 0.05
"""On an H100 the tensor pipe was busy up to 3.3 % in kernels without tensor work, and from 21 % on in attention."""
_FOR_OLDER = re.compile(r"(?<![a-z])(?:(?:sm_?|cutlass_)[78]\d(?!\d)|(?:volta|turing|ampere|ada)_)")
_FOR_NEWER = re.compile(r"sm_?(?:9|1\d)\d|hopper|blackwell|gmma")
"""In names of kernels: Hopper brought the first instructions of groups of warps."""
_ARITHMETIC = ("tensor", "fma", "fmaheavy", "fp64")
_LEVELS = ("dram", "l2", "l1")


def open_questions(kernel: KernelProfile, *, opcodes_give_tensor_work: bool) -> frozenset[Question]:
    """Return what the limits of a kernel leave open: its work alone if its arithmetic is near its peak.

    If a memory level is busy, it is open how its bytes are used; if the SM is, which pipe. If nothing is busy, both are
    open. In all three cases it is open where and why warps wait, and the work unless the operator's shapes give it.
    """
    pipes = {pipe.name: pipe.fraction for pipe in kernel.pipes}
    if max((pipes.get(name, 0.0) for name in _ARITHMETIC), default=0.0) >= NEAR_PEAK:
        questions = set[Question]()
    else:
        questions = {"waits"}
        busy = {unit.unit for unit in kernel.throughput if unit.fraction >= BUSY}
        if not busy.isdisjoint(_LEVELS) or "sm" not in busy:
            questions.add("memory")
        if "sm" in busy or busy.isdisjoint(_LEVELS):
            questions.add("pipes")
    if kernel.operator_flop is None or not kernel.operator_flop.exact:
        questions.add("work")
        if not opcodes_give_tensor_work and needs_tensor_counters(kernel):
            questions.add("tensor-work")
    return frozenset(questions)


def needs_tensor_counters(kernel: KernelProfile) -> bool:
    """Return whether a kernel may do tensor work by groups of warps, which opcodes do not give."""
    if not any(pipe.name == "tensor" and pipe.fraction >= _TENSOR for pipe in kernel.pipes):
        return False
    name = kernel.demangled.lower()
    return _FOR_OLDER.search(name) is None or _FOR_NEWER.search(name) is not None
